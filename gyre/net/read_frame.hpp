// SPDX-License-Identifier: Apache-2.0
// read_frame: the next message of a stream, for coroutines.
//
//     gyre::net::delimited lines("\r\n");
//     gyre::io::buffer held;
//     while (auto line = co_await gyre::net::read_frame(stream, lines, held)) handle(*line);
#pragma once

#include <gyre/io/buffer.hpp>
#include <gyre/io/error.hpp>
#include <gyre/io/received.hpp>
#include <gyre/io/stream.hpp>
#include <gyre/net/framing.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace gyre::net {

namespace detail {

/// Returns memory in `buffer` to read into, within its max_size. Returns none if `buffer` has room
/// for a whole block of the loop's receive memory, which the caller receives instead. Throws
/// std::system_error: io::errc::limit_exceeded if `buffer` is full, std::errc::not_enough_memory.
std::span<std::byte> prepare_within_limit(io::buffer& buffer);
/// Appends received bytes. Throws std::system_error (std::errc::not_enough_memory).
void append_received(io::buffer& buffer, std::span<const std::byte> bytes);

template <class Payload>
Payload payload_as(std::span<const std::byte> bytes) noexcept {
  if constexpr (std::is_same_v<Payload, std::string_view>) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  } else {
    return bytes;
  }
}

/// Implements read_frame() for both kinds of payload.
template <class Payload, framing Framing>
task<std::optional<Payload>> read_frame_as(io::stream& source, Framing& frames,
                                           io::buffer& buffer) {
  for (;;) {
    decoded_frame frame = frames.decode(buffer);
    if (!frame) throw std::system_error(frame.error(), "gyre::net::read_frame");
    if (*frame) co_return payload_as<Payload>(**frame);
    std::size_t count = 0;
    if (const std::span<std::byte> space = detail::prepare_within_limit(buffer); !space.empty()) {
      count = co_await source.read_some(space);
      buffer.commit(count);
    } else {
      const io::received input = co_await source.receive();
      count = input.size();
      detail::append_received(buffer, input.bytes());
    }
    if (count == 0) {
      if (buffer.empty()) co_return std::nullopt;
      throw std::system_error(make_error_code(io::errc::unexpected_end), "gyre::net::read_frame");
    }
  }
}

}  // namespace detail

/// Returns the payload of the next frame, valid until `buffer` changes, so until the next call;
/// std::nullopt when the stream ends after a complete frame. Bytes after the frame stay in `buffer`
/// for the next call. Cancellation-safe: after a stop or with_timeout(), `buffer` has all received
/// bytes; call again.
///
/// Memory: set the max_size of `buffer` (buffer_options) to the largest frame that you accept, its
/// length or delimiter included. `buffer` never has more bytes, as nothing is read before earlier
/// frames have been taken out of it.
/// - With less than 1 MiB of room up to max_size, bytes are read right into `buffer`, which has 4
///   KiB of memory or more while it waits.
/// - With more, or without a max_size, bytes are received into the loop's memory, so that an idle
///   connection holds none, and copied to `buffer`. Without a max_size `buffer` can grow to the
///   largest frame of the framing and 1 MiB after it.
///
/// To limit the memory of all connections, limit their number (by a semaphore, for instance).
///
/// Thread-safety: as io::stream.
/// Lifetime: the arguments must outlive the wait.
/// Errors, thrown as std::system_error: those of decode(), those of stream::receive(),
/// io::errc::unexpected_end if the stream ends within a frame, io::errc::limit_exceeded if a frame
/// does not fit in `buffer`, std::errc::not_enough_memory.
/// Complexity: allocates one coroutine frame per call.
template <framing Framing>
[[nodiscard]] task<std::optional<std::span<const std::byte>>> read_frame(io::stream& source,
                                                                         Framing& frames,
                                                                         io::buffer& buffer) {
  return detail::read_frame_as<std::span<const std::byte>>(source, frames, buffer);
}

}  // namespace gyre::net

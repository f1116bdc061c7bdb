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

/// Room in `held` to read into, within its max_size; empty if a whole block of the loop's receive
/// memory fits in besides. Throws std::system_error: io::errc::limit_exceeded if `held` is full,
/// std::errc::not_enough_memory.
std::span<std::byte> limited_room(io::buffer& held);
/// Throws std::system_error (std::errc::not_enough_memory).
void append_received(io::buffer& held, std::span<const std::byte> bytes);

template <class Payload>
Payload payload_as(std::span<const std::byte> bytes) noexcept {
  if constexpr (std::is_same_v<Payload, std::string_view>) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  } else {
    return bytes;
  }
}

/// read_frame() with a payload of either kind.
template <class Payload, framing Framing>
task<std::optional<Payload>> read_frame_as(io::stream& from, Framing& frames, io::buffer& held) {
  for (;;) {
    decoded_frame frame = frames.decode(held);
    if (!frame) throw std::system_error(frame.error(), "gyre::net::read_frame");
    if (*frame) co_return payload_as<Payload>(**frame);
    std::size_t count = 0;
    if (const std::span<std::byte> room = detail::limited_room(held); !room.empty()) {
      count = co_await from.read_some(room);
      held.commit(count);
    } else {
      const io::received more = co_await from.receive();
      count = more.size();
      detail::append_received(held, more.bytes());
    }
    if (count == 0) {
      if (held.empty()) co_return std::nullopt;
      throw std::system_error(make_error_code(io::errc::unexpected_end), "gyre::net::read_frame");
    }
  }
}

}  // namespace detail

/// The payload of the next frame, valid until `held` changes, so until the next call; nothing when
/// the stream ends after a complete frame. Bytes behind the frame stay in `held` for the next call.
/// Cancellation-safe: after a stop or with_timeout(), `held` has all received bytes; call again.
///
/// Memory: set the max_size of `held` (buffer_options) to the largest frame that you accept, its
/// length or delimiter included. `held` never has more bytes, as nothing is read before earlier
/// frames have been taken out of it.
/// - With less than 1 MiB of room up to max_size, bytes are read right into `held`, which has 4 KiB
///   of memory or more while it waits.
/// - With more, or without a max_size, bytes are received into the loop's memory, so that an idle
///   connection holds none, and copied to `held`. Without a max_size `held` can grow to the largest
///   frame of the framing and 1 MiB behind it.
///
/// To limit the memory of all connections, limit their number (by a semaphore, for instance).
///
/// Thread-safety: as io::stream.
/// Lifetime: the arguments must outlive the wait.
/// Errors, thrown as std::system_error: those of decode(), those of stream::receive(),
/// io::errc::unexpected_end if the stream ends within a frame, io::errc::limit_exceeded if a frame
/// does not fit in `held`, std::errc::not_enough_memory.
/// Complexity: allocates one coroutine frame per call.
template <framing Framing>
[[nodiscard]] task<std::optional<std::span<const std::byte>>> read_frame(io::stream& from,
                                                                         Framing& frames,
                                                                         io::buffer& held) {
  return detail::read_frame_as<std::span<const std::byte>>(from, frames, held);
}

}  // namespace gyre::net

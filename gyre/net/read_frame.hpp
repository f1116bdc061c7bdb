// SPDX-License-Identifier: Apache-2.0
// read_frame: reads messages from a stream, one at a time, for coroutines.
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
#include <system_error>

namespace gyre::net {

namespace detail {

/// Room in `held` to read into, so that it stays within its largest size; empty where all that a
/// loop lends at once fits in besides. Throws std::system_error: io::errc::limit_exceeded if `held`
/// is full, std::errc::not_enough_memory.
std::span<std::byte> limited_room(io::buffer& held);
/// Throws std::system_error (std::errc::not_enough_memory).
void append_received(io::buffer& held, std::span<const std::byte> bytes);

}  // namespace detail

/// Awaited, reads until the next frame is complete, and gives its payload, which is valid until
/// `held` changes, so until the next call. Gives nothing when the stream ended after a complete
/// frame. Bytes behind the frame stay in `held` for the next call. The arguments must outlive the
/// wait.
///
/// Memory: set the max_size of `held` (buffer_options) to the largest frame that you accept, its
/// length or delimiter included. `held` never has more bytes than that: nothing is read before
/// earlier frames have been taken out of it, however many a peer sends at once.
/// - While max_size leaves room for less than 1 MiB, bytes are read right into `held`, which then
///   has 4 KiB of memory or more while it waits.
/// - Otherwise bytes are received into the loop's memory, so that an idle connection holds none,
///   and are copied to `held`. Without a max_size `held` can grow to the largest frame of the
///   framing and 1 MiB that came after it.
///
/// The memory of all connections together is not limited here. A server limits it by the number of
/// connections (with a semaphore, for instance): memory / max_size.
///
/// Errors, thrown as std::system_error: those of decode(), those of stream::receive(),
/// io::errc::unexpected_end if the stream ends within a frame, io::errc::limit_exceeded if a frame
/// does not fit in `held`, std::errc::not_enough_memory.
/// Complexity: allocates one coroutine frame per call.
template <framing Framing>
[[nodiscard]] task<std::optional<std::span<const std::byte>>> read_frame(io::stream& from,
                                                                         Framing& frames,
                                                                         io::buffer& held) {
  for (;;) {
    decoded_frame frame = frames.decode(held);
    if (!frame) throw std::system_error(frame.error(), "gyre::net::read_frame");
    if (*frame) co_return **frame;
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

}  // namespace gyre::net

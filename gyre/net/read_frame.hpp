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
#include <utility>

namespace gyre::net {

namespace detail {

/// Room in `held` to read into, so that it stays within its largest size; empty where all that a
/// loop lends at once fits in besides. Throws std::system_error: io::errc::limit_exceeded if `held`
/// is full, std::errc::not_enough_memory.
std::span<std::byte> limited_room(io::buffer& held);
/// Throws std::system_error (std::errc::not_enough_memory).
void append_received(io::buffer& held, std::span<const std::byte> bytes);

}  // namespace detail

/// Reads until the next frame is there as a whole, and gives its payload, which is valid until
/// `held` is changed, so until the next call; nothing when the stream has ended behind a frame.
/// Bytes that came behind the frame stay in `held` for the next call. The arguments must outlive
/// the wait.
///
/// `held` never grows beyond its max_size: more is not read before frames have been taken out of
/// it, so a peer may send many frames at once. Up to 1 MiB and a little, read_frame() reads into
/// the buffer's own memory, of which it then keeps 4 KiB while it waits; else into the loop's.
/// Without a max_size it grows to the framing's largest frame and up to 1 MiB that came behind it.
/// Nothing counts what all connections hold: a server bounds them, by a semaphore for instance, to
/// its memory divided by that.
///
/// Errors, thrown as std::system_error: those of decode(), those of stream::receive(),
/// io::errc::unexpected_end if the stream ends within a frame, io::errc::limit_exceeded if a frame
/// does not fit in `held`, std::errc::not_enough_memory.
/// Complexity: allocates a coroutine's frame per call; copies what had to be waited for.
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

// SPDX-License-Identifier: Apache-2.0
// Messages out of a stream, one at a time, for coroutines.
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

/// Reads until the next frame is there as a whole, and gives its payload, which is valid until `held`
/// is changed, so until the next call; nothing when the stream has ended behind a frame. What came
/// beyond the frame stays in `held` for the next call. The arguments must outlive the wait.
///
/// Errors, thrown: those of decode(), those of stream::receive(), io::errc::unexpected_end if the
/// stream ends within a frame, and what `held` throws (std::length_error beyond its maximum). Costs
/// a coroutine frame per call, and a copy of what had to be waited for.
template <framing Framing>
[[nodiscard]] task<std::optional<std::span<const std::byte>>> read_frame(io::stream& from,
                                                                         Framing& frames,
                                                                         io::buffer& held) {
  for (;;) {
    decoded_frame frame = frames.decode(held);
    if (!frame) throw std::system_error(frame.error(), "gyre::net::read_frame");
    if (*frame) co_return **frame;
    const io::received more = co_await from.receive();
    if (more.empty()) {
      if (held.empty()) co_return std::nullopt;
      throw std::system_error(make_error_code(io::errc::unexpected_end), "gyre::net::read_frame");
    }
    held.append(more.bytes());
  }
}

}  // namespace gyre::net

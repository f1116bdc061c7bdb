// SPDX-License-Identifier: Apache-2.0
// encoded_message: the frames of a prepared_message.
#pragma once

#include <gyre/http/websocket_message.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace gyre::http::detail {

struct encoded_message {
  websocket_kind kind;
  std::vector<std::byte> frame;    ///< of a server, not compressed
  std::size_t payload_offset = 0;  ///< of the payload in `frame`
  std::vector<std::byte> packed =
      {};  ///< the frames of the compressed message; empty if there is none
  unsigned packed_window_bits = 15;

  std::span<const std::byte> payload() const noexcept {
    return std::span(frame).subspan(payload_offset);
  }
};

}  // namespace gyre::http::detail

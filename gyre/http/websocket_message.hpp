// SPDX-License-Identifier: Apache-2.0
// websocket_message: a message of a WebSocket, or a piece of one.
//
//     if (message->is_text()) print(message->text());
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace gyre::http {

/// The two kinds of messages.
enum class websocket_kind : std::uint8_t { text, binary };

/// A view of a received message; of a piece, if it comes from websocket::receive_piece().
///
/// Lifetime: valid until the next receive or close of the socket, or its end.
struct websocket_message {
  websocket_kind kind = websocket_kind::text;
  std::span<const std::byte> bytes = {};
  /// Whether the message ends with these bytes.
  bool is_last = true;

  [[nodiscard]] bool is_text() const noexcept { return kind == websocket_kind::text; }
  /// The bytes as text: valid UTF-8 if is_text(), but a piece may end within a character.
  [[nodiscard]] std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

}  // namespace gyre::http

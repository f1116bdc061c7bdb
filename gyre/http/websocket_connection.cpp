// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/websocket_connection.hpp>

#include <gyre/http/detail/utf8_validator.hpp>

#include <stdexcept>

namespace gyre::http {

bool websocket_connection::send_text(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  if (!detail::is_utf8(bytes)) {
    throw std::invalid_argument("http::websocket_connection::send_text: the text is not UTF-8");
  }
  return send(websocket_message{.kind = websocket_kind::text, .bytes = bytes});
}

bool websocket_connection::send_binary(std::span<const std::byte> bytes) {
  return send(websocket_message{.kind = websocket_kind::binary, .bytes = bytes});
}

}  // namespace gyre::http

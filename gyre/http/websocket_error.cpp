// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/websocket_error.hpp>

#include <gyre/base/detail/enum_category.hpp>

namespace gyre::http {
namespace {

const char* websocket_message_of(websocket_errc code) noexcept {
  switch (code) {
    case websocket_errc::bad_frame: return "a frame breaks the protocol of WebSocket";
    case websocket_errc::bad_close:
      return "a Close frame has a code that must not be sent, or half a code";
    case websocket_errc::bad_utf8: return "a text of a WebSocket is not UTF-8";
    case websocket_errc::bad_compression: return "a compressed message cannot be unpacked";
    case websocket_errc::too_large: return "a frame or a message is larger than its limit";
    case websocket_errc::message_timeout:
      return "the rest of a message did not come within its time limit";
    case websocket_errc::silent_peer: return "the peer has not replied to a ping in time";
    case websocket_errc::ended: return "the connection ended without a Close frame";
    case websocket_errc::closed: return "the WebSocket is closed, or being closed by this side";
    case websocket_errc::refused: return "the server has refused to open a WebSocket";
    case websocket_errc::bad_handshake:
      return "the response that opens a WebSocket breaks the protocol";
  }
  return "unknown error";
}

std::errc websocket_condition_of(websocket_errc code) noexcept {
  switch (code) {
    case websocket_errc::message_timeout:
    case websocket_errc::silent_peer: return std::errc::timed_out;
    case websocket_errc::closed: return std::errc::not_connected;
    case websocket_errc::ended: return std::errc::connection_reset;
    default: return std::errc();
  }
}

}  // namespace

const std::error_category& websocket_category() noexcept {
  static const gyre::detail::enum_category<websocket_errc> category(
      "gyre.websocket", websocket_message_of, websocket_condition_of);
  return category;
}

std::error_code make_error_code(websocket_errc code) noexcept {
  return {static_cast<int>(code), websocket_category()};
}

bool may_be_sent(close_code code) noexcept {
  const auto number = static_cast<std::uint16_t>(code);
  if (number >= 3000) return number <= 4999;
  return number >= 1000 && number <= 1014 && (number <= 1003 || number >= 1007);
}

close_code close_code_of(websocket_errc code) noexcept {
  switch (code) {
    case websocket_errc::bad_frame:
    case websocket_errc::bad_close: return close_code::protocol_error;
    case websocket_errc::bad_utf8:
    case websocket_errc::bad_compression: return close_code::invalid_data;
    case websocket_errc::too_large: return close_code::message_too_big;
    case websocket_errc::message_timeout: return close_code::policy_violation;
    default: return close_code::normal;
  }
}

}  // namespace gyre::http

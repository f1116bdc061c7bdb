// SPDX-License-Identifier: Apache-2.0
// websocket_errc: the reasons for which a WebSocket fails. close_code: the codes of Close frames.
//
//     std::error_code error = gyre::http::websocket_errc::bad_utf8;
//     log(error.message(), gyre::http::close_code_of(gyre::http::websocket_errc::bad_utf8));  // 1007
#pragma once

#include <gyre/http/status.hpp>

#include <cstdint>
#include <string>
#include <system_error>
#include <type_traits>

namespace gyre::http {

/// Reasons for which a WebSocket (RFC 6455) fails. The number in brackets is the code of the Close
/// frame that the peer gets.
enum class websocket_errc {
  bad_frame = 1,  ///< a frame that breaks the protocol: reserved bits, a wrong mask or order [1002]
  bad_close,      ///< a Close frame with a code that must not be sent, or half a code [1002]
  bad_utf8,       ///< a text, or the reason of a Close frame, that is not UTF-8 [1007]
  bad_compression,  ///< a compressed message that cannot be unpacked [1007]
  too_large,        ///< a frame or a message above its limit [1009]
  message_timeout,  ///< the rest of a message did not come within its time limit [1008]
  silent_peer,      ///< the peer has not replied to a ping in time; the connection is broken
  ended,            ///< the connection ended without a Close frame
  closed,           ///< a message was to be sent after this side had begun to close
  // A client's handshake has failed with one of these.
  refused,        ///< the server has responded with another status than 101
  bad_handshake,  ///< the server's 101 breaks the protocol, or selects what was not offered
};

/// Returns the category of websocket_errc, "gyre.websocket". Thread-safety: any thread.
const std::error_category& websocket_category() noexcept;
std::error_code make_error_code(websocket_errc code) noexcept;

/// The codes of Close frames that have a meaning of their own (RFC 6455, 7.4). A program may send
/// them, except for `none`, and its own from 3000 to 4999.
enum class close_code : std::uint16_t {
  normal = 1000,
  going_away = 1001,  ///< a server stops, or the user leaves the page
  protocol_error = 1002,
  unsupported_data = 1003,
  none = 1005,  ///< the peer has sent no code; is never sent
  invalid_data = 1007,
  policy_violation = 1008,
  message_too_big = 1009,
  missing_extension = 1010,
  internal_error = 1011,
  service_restart = 1012,
  try_again_later = 1013,
  bad_gateway = 1014,
};

/// Whether a Close frame may have the code.
[[nodiscard]] bool may_be_sent(close_code code) noexcept;
/// Returns the code that a peer gets which causes the error; `normal` for an error without one.
[[nodiscard]] close_code close_code_of(websocket_errc code) noexcept;

/// The error of a client whose handshake a server has refused: websocket_errc::refused, and the
/// status of the response.
///
/// Thread-safety: as a value.
class websocket_refused : public std::system_error {
 public:
  websocket_refused(http::status status, const std::string& text)
      : std::system_error(make_error_code(websocket_errc::refused), text), status_(status) {}
  [[nodiscard]] http::status status() const noexcept { return status_; }

 private:
  http::status status_;
};

}  // namespace gyre::http

template <>
struct std::is_error_code_enum<gyre::http::websocket_errc> : std::true_type {};

// SPDX-License-Identifier: Apache-2.0
// websocket_handlers: callbacks of a WebSocket, in place of a coroutine that receives.
//
//     server.get("/echo", [](gyre::http::request& request) {
//       gyre::http::websocket_handlers handlers;
//       handlers.on_message([](gyre::http::websocket_connection& socket,
//                              gyre::http::websocket_message message) { socket.send(message); });
//       return gyre::http::accept_websocket(request, std::move(handlers));
//     });
#pragma once

#include <gyre/base/detail/misuse.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/http/websocket_message.hpp>

#include <system_error>
#include <utility>

namespace gyre::http {

class websocket_connection;

namespace detail {

class websocket_callbacks;

GYRE_MISUSED_CALLBACK(misused_websocket_callback,
                      "the callback takes (gyre::http::websocket_connection&)",
                      void(websocket_connection&));
GYRE_MISUSED_CALLBACK(
    misused_websocket_message_callback,
    "the callback takes (gyre::http::websocket_connection&, gyre::http::websocket_message)",
    void(websocket_connection&, websocket_message));
GYRE_MISUSED_CALLBACK(misused_websocket_close_callback,
                      "the callback takes (gyre::http::websocket_connection&, std::error_code)",
                      void(websocket_connection&, std::error_code));

}  // namespace detail

/// The callbacks of one WebSocket, each of which is optional. They may own what the program knows
/// of the socket. accept_websocket() takes those of a server, and connect_websocket() those of a
/// client.
///
/// Thread-safety: called in turns of the connection's loop, never within a function of the
/// websocket_connection.
/// Errors: an exception of a callback closes the socket with close_code::internal_error. on_close
/// gets io::errc::aborted. Then the exception leaves the task of connect_websocket(), or goes to
/// server::on_error(), which is not called once the client has left. An exception of on_close
/// itself goes there, too.
class websocket_handlers {
 public:
  websocket_handlers() noexcept = default;

  /// The socket is open.
  websocket_handlers& on_open(move_only_function<void(websocket_connection&)> callback) {
    open_ = std::move(callback);
    return *this;
  }
  /// A whole message has come. It is valid until the callback returns.
  websocket_handlers& on_message(
      move_only_function<void(websocket_connection&, websocket_message)> callback) {
    message_ = std::move(callback);
    return *this;
  }
  /// The connection has taken all messages that waited: one call for several sends, and none after
  /// close().
  websocket_handlers& on_write_complete(move_only_function<void(websocket_connection&)> callback) {
    write_complete_ = std::move(callback);
    return *this;
  }
  /// The last call for a socket that was open. `reason` is not an error if the peer's Close frame
  /// has come. Otherwise it is a websocket_errc, io::errc::output_limit, or an error of the
  /// connection; websocket_errc::ended also if the task that serves the socket was stopped.
  websocket_handlers& on_close(
      move_only_function<void(websocket_connection&, std::error_code reason)> callback) {
    close_ = std::move(callback);
    return *this;
  }

  // This overload explains wrong arguments: see base/detail/misuse.hpp.
  websocket_handlers& on_open(detail::misused_websocket_callback explained);
  websocket_handlers& on_message(detail::misused_websocket_message_callback explained);
  websocket_handlers& on_write_complete(detail::misused_websocket_callback explained);
  websocket_handlers& on_close(detail::misused_websocket_close_callback explained);

 private:
  friend detail::websocket_callbacks;

  move_only_function<void(websocket_connection&)> open_;
  move_only_function<void(websocket_connection&, websocket_message)> message_;
  move_only_function<void(websocket_connection&)> write_complete_;
  move_only_function<void(websocket_connection&, std::error_code)> close_;
};

}  // namespace gyre::http

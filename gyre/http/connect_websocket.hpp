// SPDX-License-Identifier: Apache-2.0
// connect_websocket: opens a WebSocket as a client.
//
//     auto socket = co_await gyre::http::connect_websocket(url);  // such as "wss://example.org/chat"
//     co_await socket.send_text("hello");
//     auto reply = co_await socket.receive();
//     std::string text(reply->text());
//     co_await socket.close();
#pragma once

#include <gyre/base/detail/awaited_value.hpp>
#include <gyre/http/client_options.hpp>
#include <gyre/http/websocket.hpp>
#include <gyre/http/websocket_handlers.hpp>
#include <gyre/http/websocket_options.hpp>
#include <gyre/task/task.hpp>

#include <string>
#include <string_view>
#include <utility>

namespace gyre::http {

class client;

namespace detail {
task<websocket> connect_websocket_alone(std::string url, websocket_options options,
                                        client_options connecting);
task<websocket> connect_websocket_of(const client& owner, std::string url,
                                     websocket_options options);
}  // namespace detail

/// Opens a WebSocket on the loop that runs the coroutine. `url` has the scheme ws, wss, http or
/// https. The handshake follows no redirect. These options of `connecting` apply: the proxy, TLS,
/// the limits of the head, and the time limits of connecting, the handshake, sending and the first
/// byte; `timeouts.total` limits the time until the socket is open. The settings of HTTP/2 apply
/// if websocket_options::http2 is `always`.
///
/// Thread-safety: to be awaited on a loop's thread.
/// Lifetime: the socket must not outlive the loop.
/// Errors: websocket_refused if the server's status is not 101, or in HTTP/2 not 2xx;
/// websocket_errc::bad_handshake; the errors of http::client; those of url::parse(), and
/// errc::unsupported_scheme;
/// std::invalid_argument as accept_websocket(); io::errc::wrong_thread if no loop runs the
/// coroutine.
/// Complexity: constructs a client for each call: see http::get().
[[nodiscard]] inline task<websocket> connect_websocket(std::string_view url) {
  return detail::connect_websocket_alone(std::string(url), {}, {});
}
/// With GCC 12, the options must be variables, not temporaries: see channel::send().
[[nodiscard]] inline task<websocket> connect_websocket(
    std::string_view url, gyre::detail::awaited_value<websocket_options> options) {
  return detail::connect_websocket_alone(std::string(url), std::move(options), {});
}
[[nodiscard]] inline task<websocket> connect_websocket(
    std::string_view url, gyre::detail::awaited_value<websocket_options> options,
    gyre::detail::awaited_value<client_options> connecting) {
  return detail::connect_websocket_alone(std::string(url), std::move(options),
                                         std::move(connecting));
}

/// Opens a WebSocket with the options and cookies of `owner`, on its loop: as a stream of one of
/// its connections of HTTP/2 if websocket_options::http2 and the server allow that, and otherwise
/// on a connection of HTTP/1.1 that is not of its pool.
///
/// Thread-safety: the loop's thread.
/// Lifetime: the socket may outlive the client.
/// Errors: those of connect_websocket(url); io::errc::not_open after client::close().
[[nodiscard]] inline task<websocket> connect_websocket(const client& owner, std::string_view url) {
  return detail::connect_websocket_of(owner, std::string(url), {});
}
/// With GCC 12, the options must be variables, not temporaries: see channel::send().
[[nodiscard]] inline task<websocket> connect_websocket(
    const client& owner, std::string_view url,
    gyre::detail::awaited_value<websocket_options> options) {
  return detail::connect_websocket_of(owner, std::string(url), std::move(options));
}

/// Opens a WebSocket as connect_websocket(url) does, and calls `handlers` until the socket has
/// ended. For programs without coroutines: `gyre::spawn(loop, connect_websocket(url, …))`. A stop
/// closes the socket with close_code::going_away.
///
/// Thread-safety: to be run on a loop's thread.
/// Errors: those of connect_websocket(url), without a call of a handler; exceptions of handlers.
[[nodiscard]] task<> connect_websocket(std::string_view url, websocket_handlers handlers,
                                       websocket_options options = {},
                                       client_options connecting = {});
/// Opens a WebSocket with the options, cookies and connections of `owner`.
[[nodiscard]] task<> connect_websocket(const client& owner, std::string_view url,
                                       websocket_handlers handlers, websocket_options options = {});

}  // namespace gyre::http

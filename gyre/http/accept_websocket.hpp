// SPDX-License-Identifier: Apache-2.0
// accept_websocket: the response of a server that opens a WebSocket.
//
//     server.get("/echo", [](gyre::http::request& request) {
//       return gyre::http::accept_websocket(request, echo);
//     });
#pragma once

#include <gyre/base/move_only_function.hpp>
#include <gyre/http/request.hpp>
#include <gyre/http/response.hpp>
#include <gyre/http/websocket.hpp>
#include <gyre/http/websocket_handlers.hpp>
#include <gyre/http/websocket_options.hpp>
#include <gyre/task/task.hpp>

namespace gyre::http {

/// Returns a response that opens a WebSocket, which `serve` then serves until it ends. A request
/// that opens none, or must not, gets a response that says why:
///
/// | status | the request |
/// |---|---|
/// | 400 | has no Sec-WebSocket-Key, a malformed one, or several |
/// | 403 | comes from a page of another origin: see websocket_options::allowed_origins |
/// | 405 | has another method than GET |
/// | 426 | offers no WebSocket of version 13, by an upgrade of HTTP/1.1 or over HTTP/2 |
///
/// Over HTTP/2 (RFC 8441) the socket is one stream of the connection, beside other requests; in
/// place of 426 the stream is reset, so that clients try HTTP/1.1.
///
/// When `serve` returns, the socket is closed with close_code::normal, unless it was closed before.
/// When it throws, the socket is closed with close_code::internal_error, and server::on_error() is
/// called, except for websocket_errc, which peers cause. A stop of `serve` is requested when the
/// client's side of the connection ends.
///
/// Thread-safety: `serve` runs on the loop of the connection.
/// Lifetime: the socket is valid until the task of `serve` has ended. The response owns `serve`.
/// The request may be gone when `serve` is called, because an idle socket must hold little: let
/// `serve` own what it needs of the request, such as a parameter of the path.
/// Errors: std::invalid_argument for negative time limits, a level or window bits out of range,
/// subprotocols that are no tokens, and malformed origins.
[[nodiscard]] response accept_websocket(const request& request,
                                        move_only_function<task<>(websocket&)> serve,
                                        websocket_options options = {});
/// Returns a response that opens a WebSocket which calls `handlers`.
[[nodiscard]] response accept_websocket(const request& request, websocket_handlers handlers,
                                        websocket_options options = {});

}  // namespace gyre::http

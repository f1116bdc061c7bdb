// SPDX-License-Identifier: Apache-2.0
// serve_websocket: the life of a WebSocket that a function of the program serves.
#pragma once

#include <gyre/base/move_only_function.hpp>
#include <gyre/http/websocket.hpp>
#include <gyre/task/task.hpp>

#include <exception>

namespace gyre::http::detail {

/// Whether `error` of a function that serves a socket is a websocket_errc, which peers cause.
bool is_of_peer(const std::exception_ptr& error) noexcept;

/// Awaits `serve(socket)`, and closes the socket, unless it was closed before: with
/// close_code::normal, with `going_away` if `serve` was stopped, with `internal_error` if it has
/// failed. After a failure, a server does not wait for the client's Close frame.
/// Errors: those of `serve`, except for websocket_errc, which peers cause.
task<> serve_websocket(websocket socket, move_only_function<task<>(websocket&)> serve);

}  // namespace gyre::http::detail

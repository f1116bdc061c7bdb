// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/serve_websocket.hpp>

#include <gyre/base/detail/error_code_of.hpp>
#include <gyre/http/detail/websocket_core.hpp>
#include <gyre/http/websocket_error.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/shielded.hpp>

#include <exception>
#include <string>
#include <system_error>
#include <utility>

namespace gyre::http::detail {

bool is_of_peer(const std::exception_ptr& error) noexcept {
  return gyre::detail::error_code_of(error).category() == websocket_category();
}

task<> serve_websocket(websocket socket, move_only_function<task<>(websocket&)> serve) {
  std::exception_ptr error;
  try {
    auto serving = serve(socket);
    co_await std::move(serving);
  } catch (...) {
    error = gyre::detail::caught_error();
  }
  const bool has_failed = error && !is_of_peer(error);
  const bool was_cancelled = error == gyre::detail::cancellation();
  close_code code = has_failed ? close_code::internal_error : close_code::normal;
  if (was_cancelled) code = close_code::going_away;
  // An error of a server's function is reported only while the client is there. So the server does
  // not wait for the client's Close frame.
  const bool must_wait =
      !has_failed || !socket.core_ || socket.core_->session().role() == websocket_role::client;
  auto closing = as_result(shielded(
      must_wait ? socket.close(code) : socket.core_->send_close_frame(code, std::string())));
  co_await std::move(closing);
  if (has_failed) co_await gyre::detail::fail_with(error);
}

}  // namespace gyre::http::detail

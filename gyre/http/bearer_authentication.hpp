// SPDX-License-Identifier: Apache-2.0
// bearer_authentication: a middleware that asks for a token (RFC 6750).
//
//     auto api = server.group("/api");
//     api.use(gyre::http::bearer_authentication(
//         "api", [&](std::string_view token) -> gyre::task<std::optional<session>> {
//           co_return co_await sessions.find(token);
//         }));
//     api.get("/cart", [](gyre::http::request& request) {
//       return gyre::http::response::text(request.attachment<session>()->cart);
//     });
#pragma once

#include <gyre/base/move_only_function.hpp>
#include <gyre/http/detail/verification.hpp>
#include <gyre/http/handler.hpp>
#include <gyre/http/known_users.hpp>
#include <gyre/task/task.hpp>

#include <string_view>
#include <utility>

namespace gyre::http {

/// A function of a token. It returns a std::optional of the user, of any type, or whether the token
/// is right, or a task of one of these. The view is valid until the task ends.
template <class Function>
concept bearer_verifier = detail::verifier<Function, std::string_view>;

namespace detail {
using bearer_verification = move_only_function<task<bool>(request&, std::string_view)>;
middleware require_bearer(std::string_view realm, bearer_verification verification);
}  // namespace detail

/// Returns a middleware that passes a request on if `verifier` accepts its token, and attaches the
/// user that `verifier` returns, if any. The token comes in the field Authorization; those in a
/// query or a form are ignored, because they end up in logs. Other requests get the challenge
/// `Bearer realm="…"` and
///
/// - 401 if the request has no token
/// - 401 and error="invalid_token" if `verifier` does not accept it
/// - 400 and error="invalid_request" if it is malformed, or there are several fields Authorization
///
/// A handler that needs more rights than the token has throws http_error(status::forbidden).
///
/// Use it over TLS only. Compare secrets by constant_time_equal(), as known_users does; to look a
/// token up in a table, look up its hash.
///
/// Thread-safety: `verifier` is called on the connection's loop, by several loops at the same time.
/// Errors: std::invalid_argument for a realm with other characters than visible ASCII and blanks.
/// After an exception of `verifier` the client gets 500, or the status of an http_error.
template <bearer_verifier Verifier>
[[nodiscard]] middleware bearer_authentication(std::string_view realm, Verifier verifier) {
  return detail::require_bearer(
      realm, [verifier = std::move(verifier)](request& request, std::string_view token) mutable {
        return detail::verify(verifier, request, token);
      });
}

}  // namespace gyre::http

// SPDX-License-Identifier: Apache-2.0
// basic_authentication: a middleware that asks for a name and a password (RFC 7617).
//
//     server.use(gyre::http::basic_authentication(
//         "notes", [&](std::string_view name, std::string_view password) {
//           return accounts.check(name, password);
//         }));
//     server.get("/me", [](gyre::http::request& request) {
//       auto* user = request.attachment<gyre::http::authenticated_user>();
//       return gyre::http::response::text("You are " + user->name);
//     });
#pragma once

#include <gyre/base/move_only_function.hpp>
#include <gyre/http/detail/verification.hpp>
#include <gyre/http/handler.hpp>
#include <gyre/http/known_users.hpp>
#include <gyre/task/task.hpp>

#include <string>
#include <string_view>
#include <utility>

namespace gyre::http {

/// A function of a name and a password, as the client has sent them: UTF-8 as far as clients
/// follow the challenge, without control characters. It returns whether they are right, or a
/// std::optional of the user, of any type, or a task of one of these. The views are valid until the
/// task ends.
template <class Function>
concept basic_verifier = detail::verifier<Function, std::string_view, std::string_view>;

namespace detail {
using basic_verification =
    move_only_function<task<bool>(request&, std::string_view, std::string_view)>;
middleware require_basic(std::string_view realm, bool attaches_name,
                         basic_verification verification);
}  // namespace detail

/// Returns a middleware that passes a request on if `verifier` accepts its credentials, and
/// attaches the user: the one that `verifier` returns, or, if it returns true, an
/// authenticated_user with the name. Other requests get 401 with the challenge
/// `Basic realm="…", charset="UTF-8"`, by which browsers ask their user. A request with several
/// fields Authorization is refused, too.
///
/// The password is sent with each request, readable but for TLS: use it over TLS only. Compare
/// secrets by constant_time_equal(), as known_users does, and verify slow hashes on
/// io::blocking_pool().
///
/// Thread-safety: `verifier` is called on the connection's loop, by several loops at the same time.
/// Errors: std::invalid_argument for a realm with other characters than visible ASCII and blanks.
/// After an exception of `verifier` the client gets 500, or the status of an http_error.
/// Complexity: decodes the credentials into one allocation; copies the name.
template <basic_verifier Verifier>
[[nodiscard]] middleware basic_authentication(std::string_view realm, Verifier verifier) {
  constexpr bool attaches_name =
      detail::bool_verifier<Verifier, std::string_view, std::string_view>;
  return detail::require_basic(
      realm, attaches_name,
      [verifier = std::move(verifier)](request& request, std::string_view name,
                                       std::string_view password) mutable {
        return detail::verify(verifier, request, name, password);
      });
}

}  // namespace gyre::http

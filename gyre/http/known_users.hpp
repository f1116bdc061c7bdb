// SPDX-License-Identifier: Apache-2.0
// known_users: a short list of names with passwords or tokens. authenticated_user: one of them.
//
//     gyre::http::known_users users{{"ada", password}, {"grace", other_password}};
//     server.use(gyre::http::basic_authentication("notes", users));
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gyre::http {

/// The name of a request's user, which a middleware has verified and attached to the request:
/// `request.attachment<authenticated_user>()`.
struct authenticated_user {
  std::string name;
};

/// Users and their secrets: passwords for basic_authentication(), tokens for
/// bearer_authentication(). The secrets are kept as they are, so the list is for tools and tests,
/// and for tokens that are long and random; keep the passwords of people as salted hashes
/// elsewhere.
///
/// Thread-safety: const functions may be called on several threads at the same time.
/// Errors: the constructor throws std::invalid_argument for an empty secret or name, a name with
/// ':' and a name that is listed twice.
/// Complexity: linear in the number of users. All are compared, in a time that tells nothing about
/// the secrets.
class known_users {
 public:
  /// A user with the secret: a password or a token.
  struct entry {
    std::string name;
    std::string secret;
  };

  known_users(std::initializer_list<entry> users) : known_users(std::vector<entry>(users)) {}
  explicit known_users(std::vector<entry> users);

  /// The user with this name, if the password is that user's.
  [[nodiscard]] std::optional<authenticated_user> operator()(std::string_view name,
                                                             std::string_view password) const;
  /// The user whose secret is this token.
  [[nodiscard]] std::optional<authenticated_user> operator()(std::string_view token) const;

 private:
  std::vector<entry> users_;
};

}  // namespace gyre::http

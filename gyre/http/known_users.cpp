// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/known_users.hpp>

#include <gyre/base/constant_time_equal.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace gyre::http {

known_users::known_users(std::vector<entry> users) : users_(std::move(users)) {
  for (const entry& user : users_) {
    if (user.name.empty() || user.name.contains(':')) {
      throw std::invalid_argument("http::known_users: '" + user.name +
                                  "' must not be empty or contain ':'");
    }
    if (user.secret.empty()) {
      throw std::invalid_argument("http::known_users: the secret of '" + user.name + "' is empty");
    }
    if (std::ranges::count(users_, user.name, &entry::name) != 1) {
      throw std::invalid_argument("http::known_users: '" + user.name + "' is listed twice");
    }
  }
}

std::optional<authenticated_user> known_users::operator()(std::string_view name,
                                                          std::string_view password) const {
  const entry* match = nullptr;
  for (const entry& user : users_) {
    const bool has_name = constant_time_equal(user.name, name);
    const bool has_password = constant_time_equal(user.secret, password);
    if (has_name && has_password) match = &user;
  }
  return match != nullptr ? std::optional(authenticated_user{match->name}) : std::nullopt;
}

std::optional<authenticated_user> known_users::operator()(std::string_view token) const {
  const entry* match = nullptr;
  for (const entry& user : users_) {
    if (constant_time_equal(user.secret, token)) match = &user;
  }
  return match != nullptr ? std::optional(authenticated_user{match->name}) : std::nullopt;
}

}  // namespace gyre::http

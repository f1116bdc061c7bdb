// SPDX-License-Identifier: Apache-2.0
// verifier: a function that verifies the credentials of a request, and attaches the user.
#pragma once

#include <gyre/http/request.hpp>
#include <gyre/task/task.hpp>

#include <concepts>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

namespace gyre::http::detail {

template <class T>
inline constexpr bool is_verdict = std::same_as<T, bool>;
template <class User>
inline constexpr bool is_verdict<std::optional<User>> = true;
template <class T>
inline constexpr bool is_verdict<task<T>> = is_verdict<T>;

template <class T>
inline constexpr bool is_task = false;
template <class T>
inline constexpr bool is_task<task<T>> = true;

template <class Function, class... Credentials>
concept verifier = std::invocable<Function&, Credentials...> &&
                   is_verdict<std::invoke_result_t<Function&, Credentials...>>;

template <class Function, class... Credentials>
concept bool_verifier = verifier<Function, Credentials...> &&
                        (std::same_as<std::invoke_result_t<Function&, Credentials...>, bool> ||
                         std::same_as<std::invoke_result_t<Function&, Credentials...>, task<bool>>);

inline bool accept(request&, bool is_accepted) noexcept { return is_accepted; }
template <class User>
bool accept(request& request, std::optional<User>&& user) {
  if (!user) return false;
  request.attach(*std::move(user));
  return true;
}

/// Calls the verifier, and attaches the user that it returns to the request. The result is whether
/// it has accepted the credentials.
template <class Function, class... Credentials>
task<bool> verify(Function& function, request& request, Credentials... credentials) {
  if constexpr (is_task<std::invoke_result_t<Function&, Credentials...>>) {
    auto verify_task = function(credentials...);
    auto verdict = co_await std::move(verify_task);
    co_return accept(request, std::move(verdict));
  } else {
    co_return accept(request, function(credentials...));
  }
}

}  // namespace gyre::http::detail

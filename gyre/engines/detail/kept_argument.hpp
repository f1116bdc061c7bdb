// SPDX-License-Identifier: Apache-2.0
// keep: the arguments of a call, kept by a coroutine until they are sent.
#pragma once

#include <concepts>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace gyre::engines::detail {

/// The form in which a call keeps an argument until it is sent: texts that are lvalues as views,
/// numbers and temporaries by value, and other lvalues by reference.
template <class Argument>
struct kept_argument {
  using value = std::remove_cvref_t<Argument>;
  static constexpr bool is_copied =
      !std::is_lvalue_reference_v<Argument> || std::is_arithmetic_v<value>;
  using reference = std::conditional_t<std::convertible_to<Argument, std::string_view>,
                                       std::string_view, const value&>;
  using type = std::conditional_t<is_copied, value, reference>;
};
template <class Argument>
using kept_argument_t = typename kept_argument<Argument>::type;

/// Returns the arguments in the form in which a coroutine keeps them.
template <class... Arguments>
std::tuple<kept_argument_t<Arguments>...> keep(Arguments&&... arguments) {
  return std::tuple<kept_argument_t<Arguments>...>(std::forward<Arguments>(arguments)...);
}

}  // namespace gyre::engines::detail

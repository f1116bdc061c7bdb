// SPDX-License-Identifier: Apache-2.0
// make_attempt: calls the function that makes the attempts of retry() or hedge(), with the
// attempt's number, counted from 0, if the function takes one.
#pragma once

#include <gyre/base/detail/misuse.hpp>
#include <gyre/task/as_task.hpp>

#include <concepts>
#include <cstddef>
#include <functional>
#include <utility>

namespace gyre::detail {

template <class Make>
decltype(auto) make_attempt(Make& make, std::size_t number) {
  if constexpr (std::invocable<Make&, std::size_t>) {
    return std::invoke(make, number);
  } else {
    return std::invoke(make);
  }
}

template <class Make>
using attempt_t = decltype(make_attempt(std::declval<Make&>(), std::size_t{0}));

template <class Make>
concept attempt_maker =
    (std::invocable<Make&, std::size_t> || std::invocable<Make&>) && awaitable<attempt_t<Make>>;

template <class Make>
using attempt_result_t = task_result_t<attempt_t<Make>>;

/// A parameter type that accepts only wrong arguments for a function that makes attempts, and
/// explains the mistake in the compiler's error.
class misused_attempt {
 public:
  GYRE_MISUSE_FAILS(misused_attempt);

  template <class Make>
    requires(!attempt_maker<Make>)
  GYRE_MISUSE(
      "each attempt needs a new awaitable: pass a function that returns one, as in "
      "[&] { return fetch(url); }")
  misused_attempt(Make&&) {}
};

}  // namespace gyre::detail

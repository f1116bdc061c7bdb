// SPDX-License-Identifier: Apache-2.0
// invoke: runs a lambda as a coroutine and keeps the lambda's captures, which otherwise are
// destroyed with the lambda, often before the coroutine runs.
//
//     auto work = gyre::invoke([name = std::move(name)]() -> gyre::task<> {
//       co_await gyre::yield();
//       greet(name);
//     });
#pragma once

#include <gyre/base/detail/awaited_value.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/task.hpp>

#include <concepts>
#include <coroutine>
#include <functional>
#include <type_traits>
#include <utility>

namespace gyre {
namespace detail {

/// A parameter type that accepts only wrong functions for invoke(), and explains the mistake in the
/// compiler's error.
class misused_coroutine {
 public:
  GYRE_MISUSE_FAILS(misused_coroutine);

  template <class F>
  GYRE_MISUSE(
      "invoke() needs a function that takes the arguments and returns an awaitable, such as "
      "[](int number) -> gyre::task<> { … }, and moves what it is given: use std::move()")
  misused_coroutine(F&&) {}
};

template <class Function, class... Arguments>
task<task_result_t<std::invoke_result_t<Function&, Arguments...>>> invoke_owned(
    Function function, Arguments... arguments) {
  decltype(auto) result = std::invoke(function, std::move(arguments)...);
  co_return co_await static_cast<decltype(result)&&>(result);
}

template <class Function, class... Arguments>
concept invoked_as_coroutine =
    std::invocable<Function&, Arguments...> &&
    awaitable<std::invoke_result_t<Function&, Arguments...>> && std::move_constructible<Function> &&
    (std::move_constructible<Arguments> && ...);

}  // namespace detail

/// Returns a task that calls `function`, as an lvalue, with `arguments` as rvalues, awaits the
/// returned awaitable and returns its result. std::ref passes a reference.
///
/// Lifetime: `function`, with its captures, and `arguments` are moved into the task and exist until
/// the task ends. With GCC 12 name the task before awaiting it: otherwise the compiler calls the
/// destructors of the captures twice. See "What to look out for" in docs/guide/coroutines.md.
/// Complexity: a coroutine frame.
template <class Function, class... Arguments>
  requires(detail::invoked_as_coroutine<std::decay_t<Function>, std::decay_t<Arguments>...> &&
           !(detail::unsafe_temporary<Arguments> || ...))
[[nodiscard]] auto invoke(Function&& function, Arguments&&... arguments) {
  return detail::invoke_owned<std::decay_t<Function>, std::decay_t<Arguments>...>(
      std::forward<Function>(function), std::forward<Arguments>(arguments)...);
}
// This overload explains wrong arguments: see base/detail/misuse.hpp and awaited_value.hpp.
template <class Function, class... Arguments>
  requires(detail::unsafe_temporary<Arguments> || ...)
GYRE_MISUSE(GYRE_UNSAFE_TEMPORARY)
std::suspend_never invoke(Function&&, Arguments&&...) {
  return {};
}
template <class... Arguments>
std::suspend_never invoke(detail::misused_coroutine explained, Arguments&&... arguments);

}  // namespace gyre

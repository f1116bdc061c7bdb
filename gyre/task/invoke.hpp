// SPDX-License-Identifier: Apache-2.0
// Lambdas as coroutines, safely.
//
// A coroutine that is a lambda refers to its captures, which die with the lambda; often that is
// before the coroutine runs at all. invoke() keeps them:
//
//     auto work = gyre::invoke([name = std::move(name)]() -> gyre::task<> {
//       co_await gyre::yield();
//       greet(name);
//     });
#pragma once

#include <gyre/task/as_task.hpp>
#include <gyre/task/task.hpp>

#include <concepts>
#include <functional>
#include <type_traits>
#include <utility>

namespace gyre {

/// A task that calls `function(arguments…)` when it is awaited, awaits what that returns, and gives
/// its result. `function`, with its captures, and `arguments` are moved into the task, and live
/// until what was returned has finished; the arguments are passed on as rvalues, so that parameters
/// may be values or references. A member pointer and its object do as well; std::ref passes a
/// reference.
///
/// Costs a frame. With GCC 12 name the task and await it in a statement of its own if `function` is
/// a lambda with a capture that has a destructor: made within the co_await expression, that
/// compiler destroys the capture twice. See "What to look out for" in docs/guide/coroutines.md.
template <std::move_constructible Function, std::move_constructible... Arguments>
  requires std::invocable<Function&, Arguments...> &&
           awaitable<std::invoke_result_t<Function&, Arguments...>>
task<task_result_t<std::invoke_result_t<Function&, Arguments...>>> invoke(Function function,
                                                                          Arguments... arguments) {
  decltype(auto) returned = std::invoke(function, std::move(arguments)...);
  co_return co_await static_cast<decltype(returned)&&>(returned);
}

}  // namespace gyre

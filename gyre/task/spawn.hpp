// SPDX-License-Identifier: Apache-2.0
// Starting a coroutine that nobody waits for. Prefer a scope: it waits.
//
//     gyre::spawn(loop, handle(std::move(connection)));
#pragma once

#include <gyre/base/move_only_function.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <exception>
#include <future>
#include <type_traits>
#include <utility>

namespace gyre {

/// How spawn() starts a coroutine.
struct spawn_options {
  /// Asks it to stop; the source must outlive it.
  inplace_stop_token stop = {};
  /// Receives what the coroutine throws, on the thread where it ends; must not throw. One that
  /// ended because `stop` was requested gives std::system_error (std::errc::operation_canceled).
  /// The default prints the exception and terminates the program, but is silent about such a stop.
  move_only_function<void(std::exception_ptr)> on_error = {};
  /// Shown by backtraces where they are on; must outlive the coroutine.
  const char* name = nullptr;
};

namespace detail {

void spawn_task(executor& where, task<> detached, spawn_options options);

}  // namespace detail

/// Starts `awaitable` on `where`, never before spawn() returns there, and lets it go; its result is
/// dropped. `where` must outlive it once it has started; a loop that is destroyed before destroys
/// it unrun. Any thread. Allocates the coroutine's frame and some 100 bytes from the slab; throws
/// std::bad_alloc.
template <awaitable Awaitable>
void spawn(executor& where, Awaitable awaitable, spawn_options options = {}) {
  if constexpr (std::is_same_v<Awaitable, task<>>) {
    detail::spawn_task(where, std::move(awaitable), std::move(options));
  } else {
    detail::spawn_task(
        where,
        [](Awaitable held) -> task<> {
          static_cast<void>(co_await std::move(held));
        }(std::move(awaitable)),
        std::move(options));
  }
}

/// The same with the result, or the exception, in a future for ordinary code. Waiting for that on
/// the thread of `where` waits for ever. std::future_errc::broken_promise if it never started,
/// std::errc::operation_canceled in a std::system_error if it ended because it was asked to stop.
template <awaitable Awaitable>
std::future<task_result_t<Awaitable>> spawn_future(executor& where, Awaitable awaitable,
                                                   inplace_stop_token stop = {}) {
  using result = task_result_t<Awaitable>;
  std::promise<result> promise;
  std::future<result> future = promise.get_future();
  spawn(where,
        [](Awaitable held, std::promise<result> to) -> task<> {
          try {
            if constexpr (std::is_void_v<result>) {
              co_await std::move(held);
              to.set_value();
            } else {
              to.set_value(co_await std::move(held));
            }
          } catch (...) {
            to.set_exception(detail::current_exception_outside());
          }
        }(std::move(awaitable), std::move(promise)),
        {.stop = stop});
  return future;
}

}  // namespace gyre

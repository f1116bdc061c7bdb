// SPDX-License-Identifier: Apache-2.0
// spawn, spawn_future: start a detached coroutine from ordinary code. Prefer a scope, which waits
// for the coroutine. spawn_future is for threads that block; for coroutines use spawn_joinable() of
// join_handle.hpp.
//
//     gyre::spawn(loop, handle(std::move(connection)));
#pragma once

#include <gyre/base/move_only_function.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/recorded_task.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <coroutine>
#include <exception>
#include <future>
#include <source_location>
#include <type_traits>
#include <utility>

namespace gyre {

/// Settings of a coroutine that spawn() starts.
struct spawn_options {
  /// A stop token that asks the coroutine to stop; its source must outlive the coroutine.
  inplace_stop_token stop = {};
  /// Called with the exception of the coroutine, on the thread where the coroutine ends; must not
  /// throw. If a stop ended the coroutine, the exception is std::system_error
  /// (std::errc::operation_canceled). The default prints the exception and terminates the program,
  /// but ignores a stop.
  move_only_function<void(std::exception_ptr)> on_error = {};
  /// The name that live_tasks() shows, and backtraces where they are on. Must outlive the
  /// coroutine.
  const char* name = nullptr;
};

namespace detail {

void spawn_task(executor& target, task<> work, spawn_options options);
/// Prints the exception that left a detached coroutine, and terminates the program.
[[noreturn, gnu::cold]] void terminate_detached(const std::exception_ptr& error) noexcept;

}  // namespace detail

/// Starts `awaitable`, by executor::post_discardable() on `target`, and drops its result.
/// `location` is shown by live_tasks().
///
/// Thread-safety: may be called from any thread.
/// Lifetime: `target` must outlive the coroutine. Only a loop may be destroyed before the coroutine
/// has started; it then destroys the coroutine.
/// Errors: std::bad_alloc; std::logic_error for an empty task. The coroutine's own errors go to
/// spawn_options::on_error.
/// Complexity: a coroutine frame and 48 bytes from the slab, 96 with on_error.
template <awaitable Awaitable>
void spawn(executor& target, Awaitable awaitable, spawn_options options = {},
           std::source_location location = std::source_location::current()) {
  task<> work = detail::as_task_without_result(std::move(awaitable));
  detail::record_if_enabled(work, target, options.name, location);
  detail::spawn_task(target, std::move(work), std::move(options));
}
// This overload explains wrong arguments: see base/detail/misuse.hpp.
void spawn(executor& target, detail::misused_awaitable explained, spawn_options options = {});

/// Starts `awaitable` as spawn() does, and returns its result, or exception, in a future. No thread
/// of `target` may block on the future. The future holds std::future_errc::broken_promise if the
/// coroutine never started, and std::errc::operation_canceled if a stop ended the coroutine. A
/// coroutine that awaits the result uses spawn_joinable() instead: its join_handle is awaited
/// without blocking a thread, and can stop the task.
template <awaitable Awaitable>
std::future<task_result_t<Awaitable>> spawn_future(
    executor& target, Awaitable awaitable, inplace_stop_token stop = {},
    std::source_location location = std::source_location::current()) {
  using result = task_result_t<Awaitable>;
  std::promise<result> promise;
  std::future<result> future = promise.get_future();
  spawn(
      target,
      [](Awaitable operation, std::promise<result> outcome) -> task<> {
        try {
          if constexpr (std::is_void_v<result>) {
            co_await std::move(operation);
            outcome.set_value();
          } else {
            outcome.set_value(co_await std::move(operation));
          }
        } catch (...) {
          outcome.set_exception(detail::current_exception_outside());
        }
      }(std::move(awaitable), std::move(promise)),
      {.stop = stop}, location);
  return future;
}
// This overload explains wrong arguments: see base/detail/misuse.hpp.
std::suspend_never spawn_future(executor& target, detail::misused_awaitable explained,
                                inplace_stop_token stop = {});

}  // namespace gyre

// SPDX-License-Identifier: Apache-2.0
// finally: awaits clean-up after work, no matter how the work ends.
//
//     gyre::task<> transfer(connection& database) {
//       co_await database.begin();
//       co_await gyre::finally(move_money(database), [&] { return database.end(); });
//     }
#pragma once

#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/shielded.hpp>
#include <gyre/task/task.hpp>

#include <concepts>
#include <coroutine>
#include <type_traits>
#include <utility>

namespace gyre {
namespace detail {

/// Awaits `cleanup`; or calls it, and awaits its result if that is an awaitable.
template <class Cleanup>
task<> run_cleanup(Cleanup cleanup) {
  if constexpr (awaitable<Cleanup>) {
    static_cast<void>(co_await std::move(cleanup));
  } else if constexpr (awaitable<std::invoke_result_t<Cleanup&>>) {
    static_cast<void>(co_await cleanup());
  } else {
    static_cast<void>(cleanup());
    co_return;
  }
}

}  // namespace detail

/// Awaits `body`, then `cleanup`, even if `body` throws or is stopped; returns the result of
/// `body`. `cleanup` is an awaitable, or a function that is called when `body` has ended and may
/// return an awaitable. A stop does not reach `cleanup`; shielded(…, limit) around its awaits
/// limits their time.
///
/// Lifetime: rvalues are moved into the coroutine. With GCC 12 a lambda that captures by value
/// needs a name (see invoke()). If the coroutine is destroyed while it waits, `cleanup` does not
/// run.
/// Errors: those of `body`, else those of `cleanup`. Without memory for the frames neither of them
/// runs.
/// Complexity: three coroutine frames, and one more if `body` is not a task.
template <awaitable Body, class Cleanup>
  requires awaitable<Cleanup> || std::invocable<Cleanup&>
task<task_result_t<Body>> finally(Body body, Cleanup cleanup) {
  // The clean-up's frame is allocated first, so that the clean-up cannot fail for lack of memory
  // after `body`.
  task<> last = shielded(detail::run_cleanup(std::move(cleanup)));
  task<task_result_t<Body>> work = as_task(std::move(body));
  co_await detail::await_ready_state(work);
  co_await detail::await_ready_state(last);
  if (!detail::task_access::state(work).failed()) co_await detail::take_result(last);
  co_return co_await detail::take_result(work);
}
// This overload explains wrong arguments: see base/detail/misuse.hpp.
template <class Cleanup>
std::suspend_never finally(detail::misused_awaitable explained, Cleanup&& cleanup);

}  // namespace gyre

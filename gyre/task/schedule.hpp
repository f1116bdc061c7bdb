// SPDX-License-Identifier: Apache-2.0
// schedule, resume_on, on, yield, consume_budget: move a coroutine to another executor, or to the
// end of its queue.
//
//     gyre::task<> handle(gyre::loop& ui, gyre::executor& workers) {
//       co_await gyre::resume_on(workers);
//       auto result = compute();
//       co_await gyre::resume_on(ui);
//       show(result);
//     }
#pragma once

#include <gyre/task/as_task.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/schedule_awaiters.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <concepts>
#include <coroutine>
#include <utility>

namespace gyre {

/// Awaited, moves the coroutine, and the coroutines that await it, to the end of the queue of
/// `target`, also when it runs there already. A stop does not prevent it. For gyre's coroutines.
///
/// Lifetime: `target` must outlive the coroutines that it runs.
/// Errors: where backtraces are on, std::errc::resource_deadlock_would_occur, as in sync_wait().
/// Complexity: that of executor::post(), no allocation.
template <std::derived_from<executor> Executor>
[[nodiscard]] auto schedule(Executor& target) noexcept {
  return detail::schedule_awaiter<Executor>(target);
}

/// As schedule(), but continues at once if the coroutine runs on `target`. Later waits of the
/// coroutine and of its callers end on `target` as well; to come back use on(). A stream or
/// listener of a loop refuses a coroutine that has moved away from it.
[[nodiscard]] inline auto resume_on(executor& target) noexcept {
  return detail::resume_on_awaiter(target);
}

/// Awaited, moves the coroutine to the end of its executor's queue.
///
/// Errors: throws gyre::operation_cancelled, after its turn in the queue, if a stop was requested
/// before yield(). A stop requested during yield() is met by the next wait.
/// Complexity: that of executor::post(), no allocation.
[[nodiscard]] inline auto yield() noexcept { return detail::yield_awaiter(); }

/// Awaited in a loop that computes for long, moves the coroutine to the end of its executor's queue
/// once in 256 times, as yield() does every time: a cooperative budget.
///
/// A channel, broadcast or watch counts by itself: one in 256 of the waits at it that are over at
/// once gives way, so a coroutine that always finds a value does not hold its thread. A lock that
/// is free, an event that is set, or a oneshot, which has one value, does not count. Reads and
/// writes have a budget per turn of their loop (io/backend.hpp).
///
/// Errors: throws gyre::operation_cancelled as yield() does, where it gives way.
/// Complexity: two nanoseconds; no allocation.
[[nodiscard]] inline auto consume_budget() noexcept { return detail::consume_budget_awaiter(); }

/// Awaited, gives the `executor&` on which the coroutine's waits end.
[[nodiscard]] inline auto current_executor() noexcept {
  return detail::context_awaiter(
      [](const task_context& context) noexcept -> executor& { return *context.where; });
}

/// Awaited, gives the coroutine's inplace_stop_token.
[[nodiscard]] inline auto current_stop_token() noexcept {
  return detail::context_awaiter([](const task_context& context) noexcept { return context.stop; });
}

/// Awaits `awaitable` on `target`, then returns to the executor of the awaiting coroutine, also
/// after an exception. Lifetime, Errors: as schedule().
template <awaitable Awaitable>
task<task_result_t<Awaitable>> on(executor& target, Awaitable awaitable) {
  using result = task_result_t<Awaitable>;
  executor& home = co_await current_executor();
  co_await resume_on(target);
  task<result> work = as_task(std::move(awaitable));
  co_await detail::await_ready_state(work);
  co_await resume_on(home);
  co_return co_await detail::take_result(work);
}
// Explains wrong arguments: see base/detail/misuse.hpp.
std::suspend_never on(executor& target, detail::misused_awaitable explained);

}  // namespace gyre

// SPDX-License-Identifier: Apache-2.0
// schedule, resume_on, on, yield, consume_budget: move a coroutine to another executor, or to the
// end of its executor's queue.
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
/// `target`, even if the coroutine runs on `target` already. A stop does not prevent the move. Only
/// gyre's coroutines can await it.
///
/// Lifetime: `target` must outlive the coroutines that it runs.
/// Errors: where backtraces are on, std::errc::resource_deadlock_would_occur, as in sync_wait().
/// Complexity: that of executor::post(); no allocation.
template <std::derived_from<executor> Executor>
[[nodiscard]] auto schedule(Executor& target) noexcept {
  return detail::schedule_awaiter<Executor>(target);
}

/// Awaited, moves the coroutine as schedule() does, but continues at once if the coroutine runs on
/// `target` already. Later waits of the coroutine and of its callers end on `target` as well; to
/// return afterwards use on(). A stream or listener of a loop refuses a coroutine that has moved
/// away from the loop.
[[nodiscard]] inline auto resume_on(executor& target) noexcept {
  return detail::resume_on_awaiter(target);
}

/// Awaited, moves the coroutine to the end of its executor's queue.
///
/// Errors: throws gyre::operation_cancelled, after its turn in the queue, if a stop was requested
/// before yield(). A stop that is requested during yield() ends the next wait.
/// Complexity: that of executor::post(); no allocation.
[[nodiscard]] inline auto yield() noexcept { return detail::yield_awaiter(); }

/// Awaited in a loop that computes for long, moves the coroutine to the end of its executor's queue
/// once in 256 awaits, as yield() does every time: a cooperative budget.
///
/// Channels, broadcasts and watches have such a budget themselves: one in 256 of the waits that
/// need not wait yields, so a coroutine that always finds a value does not monopolise its thread. A
/// free lock, a set event and a oneshot, which has one value, are not counted. Reads and writes
/// have a budget per turn of their loop (io/backend.hpp).
///
/// Errors: throws gyre::operation_cancelled as yield() does, in the awaits that yield.
/// Complexity: two nanoseconds for an await that does not yield; no allocation.
[[nodiscard]] inline auto consume_budget() noexcept { return detail::consume_budget_awaiter(); }

/// Awaited, returns the `executor&` on which the coroutine's waits end.
[[nodiscard]] inline auto current_executor() noexcept {
  return detail::context_awaiter(
      [](const task_context& context) noexcept -> executor& { return *context.where; });
}

/// Awaited, returns the coroutine's inplace_stop_token.
[[nodiscard]] inline auto current_stop_token() noexcept {
  return detail::context_awaiter([](const task_context& context) noexcept { return context.stop; });
}

/// Awaits `awaitable` on `target`, then returns to the executor of the awaiting coroutine, even
/// after an exception. Lifetime and Errors: as schedule().
template <awaitable Awaitable>
task<task_result_t<Awaitable>> on(executor& target, Awaitable awaitable) {
  using result = task_result_t<Awaitable>;
  executor& previous_executor = co_await current_executor();
  co_await resume_on(target);
  task<result> work = as_task(std::move(awaitable));
  co_await detail::await_ready_state(work);
  co_await resume_on(previous_executor);
  co_return co_await detail::take_result(work);
}
// This overload explains wrong arguments: see base/detail/misuse.hpp.
std::suspend_never on(executor& target, detail::misused_awaitable explained);

}  // namespace gyre

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
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/task.hpp>

#include <coroutine>
#include <utility>

namespace gyre {
namespace detail {

/// Whether certain deadlocks are reported instead of happening: in Debug builds.
inline constexpr bool checks_deadlocks = records_backtraces;

/// Throws std::system_error (std::errc::resource_deadlock_would_occur) if the coroutine of
/// `context` waits, in a sync_wait(), on the only thread that could run it on `target`.
void throw_if_deadlock(const task_context& context, const executor& target);

/// Awaited, resumes in the queue of an executor of known type, which saves a virtual call.
template <class Executor>
class schedule_awaiter : resumption, public suspends_always {
 public:
  explicit schedule_awaiter(Executor& target) noexcept : target_(target) {}

  template <has_context Promise>
  void await_suspend(std::coroutine_handle<Promise> awaiting) noexcept(!checks_deadlocks) {
    task_context& context = context_of(awaiting);
    if constexpr (checks_deadlocks) throw_if_deadlock(context, target_);
    context.where = &target_;
    waiting = awaiting;
    target_.post(static_cast<operation&>(*this));
  }

 protected:
  Executor& target_;
};

struct resume_on_awaiter : schedule_awaiter<executor> {
  using schedule_awaiter::schedule_awaiter;

  template <has_context Promise>
  bool await_suspend(std::coroutine_handle<Promise> awaiting) noexcept(!checks_deadlocks) {
    if (context_of(awaiting).where == &target_) return false;
    schedule_awaiter::await_suspend(awaiting);
    return true;
  }
};

class yield_awaiter : resumption, public suspends_always {
 public:
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> awaiting) noexcept {
    waiting = awaiting;
    const task_context& context = context_of(awaiting);
    if (context.stop.stop_requested()) [[unlikely]]
      stopped_ = &context;
    context.where->post(*this);
  }
  void await_resume() const {
    if (stopped_ != nullptr) [[unlikely]]
      throw_cancelled(*stopped_);
  }

 private:
  const task_context* stopped_ = nullptr;  // when it began to wait
};

/// Yields once in 256 awaits.
class consume_budget_awaiter : yield_awaiter {
 public:
  using yield_awaiter::await_ready;
  using yield_awaiter::await_resume;
  using yield_awaiter::executor_affine;
  template <has_context Promise>
  bool await_suspend(std::coroutine_handle<Promise> awaiting) noexcept {
    if (++context_of(awaiting).budget_used != 0) [[likely]]
      return false;
    yield_awaiter::await_suspend(awaiting);
    return true;
  }
};

/// Reads from the context of the coroutine that awaits it, without waiting.
template <class Read>
class context_awaiter : public suspends_always {
 public:
  explicit context_awaiter(Read read) noexcept : read_(read) {}

  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> awaiting) noexcept {
    context_ = &context_of(awaiting);
    return false;
  }
  decltype(auto) await_resume() const { return read_(*context_); }

 private:
  const task_context* context_ = nullptr;
  [[no_unique_address]] Read read_;
};

}  // namespace detail

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

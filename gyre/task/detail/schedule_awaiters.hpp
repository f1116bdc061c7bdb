// SPDX-License-Identifier: Apache-2.0
// schedule_awaiter, resume_on_awaiter, yield_awaiter, consume_budget_awaiter, context_awaiter: the
// awaiters of schedule.hpp.
#pragma once

#include <gyre/base/operation.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/executor.hpp>

#include <coroutine>

namespace gyre::detail {

/// Whether certain deadlocks are reported as errors: true in builds that record backtraces, such as
/// Debug builds.
inline constexpr bool checks_deadlocks = records_backtraces;

/// Throws std::system_error (std::errc::resource_deadlock_would_occur) if the coroutine of
/// `context` runs in a sync_wait() on the only thread that could run it on `target`.
void throw_if_deadlock(const task_context& context, const executor& target);

/// An awaiter that moves the coroutine to the executor `target`, through the queue of `target`. The
/// known type of the executor saves a virtual call.
template <class Executor>
class schedule_awaiter : resumption, public suspends_always {
 public:
  explicit schedule_awaiter(Executor& target) noexcept : target_(target) {}

  template <has_context Promise>
  void await_suspend(std::coroutine_handle<Promise> coroutine) noexcept(!checks_deadlocks) {
    task_context& context = context_of(coroutine);
    if constexpr (checks_deadlocks) throw_if_deadlock(context, target_);
    context.where = &target_;
    waiting = coroutine;
    target_.post(static_cast<operation&>(*this));
  }

 protected:
  Executor& target_;
};

struct resume_on_awaiter : schedule_awaiter<executor> {
  using schedule_awaiter::schedule_awaiter;

  template <has_context Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) noexcept(!checks_deadlocks) {
    if (context_of(coroutine).where == &target_) return false;
    schedule_awaiter::await_suspend(coroutine);
    return true;
  }
};

class yield_awaiter : resumption, public suspends_always {
 public:
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> coroutine) noexcept {
    waiting = coroutine;
    const task_context& context = context_of(coroutine);
    if (context.stop.stop_requested()) [[unlikely]]
      stopped_context_ = &context;
    context.where->post(*this);
  }
  void await_resume() const {
    if (stopped_context_ != nullptr) [[unlikely]]
      throw_cancelled(*stopped_context_);
  }

 private:
  // The context of a coroutine that was asked to stop before it waited, else null.
  const task_context* stopped_context_ = nullptr;
};

/// An awaiter that yields once in 256 awaits of one context.
class consume_budget_awaiter : yield_awaiter {
 public:
  using yield_awaiter::await_ready;
  using yield_awaiter::await_resume;
  using yield_awaiter::executor_affine;
  template <has_context Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) noexcept {
    if (++context_of(coroutine).budget_used != 0) [[likely]]
      return false;
    yield_awaiter::await_suspend(coroutine);
    return true;
  }
};

/// An awaiter that returns `read(context)`, for the context of the awaiting coroutine, without
/// waiting.
template <class Read>
class context_awaiter : public suspends_always {
 public:
  explicit context_awaiter(Read function) noexcept : function_(function) {}

  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) noexcept {
    context_ = &context_of(coroutine);
    return false;
  }
  decltype(auto) await_resume() const { return function_(*context_); }

 private:
  const task_context* context_ = nullptr;
  [[no_unique_address]] Read function_;
};

}  // namespace gyre::detail

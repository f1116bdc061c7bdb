// SPDX-License-Identifier: Apache-2.0
// What becomes of a task that was submitted to a pool.
//
//     gyre::future<int> answer = pool.submit([] { return compute(); });
//     int here = answer.get();  // in a thread, or
//
//     int there = co_await pool.submit(another_task);  // in a coroutine
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/droppable_operation.hpp>
#include <gyre/pool/detail/helper.hpp>
#include <gyre/pool/detail/outcome.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/stop_token.hpp>

#include <chrono>
#include <coroutine>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace gyre {

template <class T = void>
class future;

namespace detail {

template <class T>
class outcome_awaiter;

/// Throws std::logic_error: a future was used that has no task (any more).
[[noreturn, gnu::cold]] void throw_empty_future();

/// What a task that calls an F gives.
template <class F>
using submitted_result_t =
    std::conditional_t<std::is_rvalue_reference_v<std::invoke_result_t<F&>>,
                       std::remove_cvref_t<std::invoke_result_t<F&>>, std::invoke_result_t<F&>>;

/// A callable in a pool, and its outcome, in one block from the slab.
template <class F>
class submitted_task final : public outcome<submitted_result_t<F>> {
 public:
  template <class From>
  explicit submitted_task(From&& callable)
      : outcome<submitted_result_t<F>>(&run), callable_(std::forward<From>(callable)) {}

  /// Ends with std::errc::operation_canceled.
  void drop() noexcept override {
    std::destroy_at(&callable_);
    this->settle();
  }

 private:
  ~submitted_task() {}  // NOLINT: the callable is gone by then, whatever the end
  void free() noexcept override { delete this; }

  // What the callable holds is let go before anybody learns of the end.
  static void run(operation& self) noexcept {
    auto& task = static_cast<submitted_task&>(self);
    {
      const outcome_base::running here(task);
      task.keep_result_of(task.callable_);
      std::destroy_at(&task.callable_);
    }
    task.settle();
  }

  union {
    F callable_;
  };
};

/// A task for a pool, which executes or drops it, and the future of its outcome.
template <class F>
struct submission {
  submitted_task<F>& task;
  future<submitted_result_t<F>> result;
};

/// Throws std::bad_alloc, or what copying or moving `callable` throws.
template <class F>
submission<std::decay_t<F>> make_future_task(F&& callable);

}  // namespace detail

/// The end of a task that was submitted to a pool: to wait for, or to await, once. Dropping it lets
/// the task go on, and drops the result.
///
/// All members by one thread at a time. Waiting for it on a thread of a pool runs other tasks of
/// that pool meanwhile, deeper in the stack: a task that waits for others needs no thread of its
/// own. A wait ends as long as some thread can still run the task; one for a task that waits
/// beneath it, in the same stack, cannot, and throws. So does one that is nested too deep: a worker
/// runs no more tasks where a quarter of its stack is left, 256 KiB at most, and when all workers of
/// a pool have come to that point, and wait for tasks of it, one of them throws. No other wait is
/// noticed that goes in a circle through several threads. A future may outlive its pool, which ends
/// or drops all tasks.
template <class T>
class [[nodiscard]] future {
 public:
  future() noexcept = default;
  future(future&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  future& operator=(future&& other) noexcept {
    future(std::move(other)).swap(*this);
    return *this;
  }
  ~future() {
    if (state_ != nullptr) state_->abandon();
  }
  void swap(future& other) noexcept { std::swap(state_, other.state_); }

  /// Whether it has a task: was given one, and neither moved from nor asked for the result.
  [[nodiscard]] bool valid() const noexcept { return state_ != nullptr; }

  // All that follow throw std::logic_error if it is not valid.

  /// Whether the task has ended. Never waits; one load.
  [[nodiscard]] bool ready() const { return state().settled(); }

  /// Waits for the task to end, and returns its result or throws what it threw, once. Throws
  /// std::system_error: std::errc::operation_canceled if the pool dropped the task,
  /// std::errc::resource_deadlock_would_occur if the calling thread is running it or no worker has
  /// stack left to run it, and then stays valid.
  T get() {
    state().wait_until(steady_time::max());
    const future taken(std::move(*this));
    return taken.state_->take();
  }

  /// Waits for the task to end. At most two system calls, none if it has ended. Throws
  /// std::errc::resource_deadlock_would_occur as get() does.
  void wait() const { state().wait_until(steady_time::max()); }
  /// Waits at most for `duration`. Whether the task has ended. On a thread of a pool it returns
  /// late by what it is running then.
  bool wait_for(std::chrono::nanoseconds duration) const {
    return state().settled() ||
           state().wait_until(detail::later(detail::monotonic_now(), duration));
  }
  /// The same until `deadline`.
  bool wait_until(steady_time deadline) const { return state().wait_until(deadline); }

  /// Awaited as `co_await std::move(future)` or `co_await pool.submit(…)`, gives what get() gives,
  /// and goes on on the coroutine's own executor. Asked to stop, the coroutine goes on at once with
  /// operation_cancelled, and the task runs all the same. Allocates nothing. May be
  /// destroyed while it waits, as long as neither the task's end nor a stop is on its way to it.
  auto operator co_await() && {
    static_cast<void>(state());
    return detail::outcome_awaiter<T>(std::move(*this));
  }

 private:
  template <class>
  friend class detail::outcome_awaiter;
  template <class F>
  friend detail::submission<std::decay_t<F>> detail::make_future_task(F&& callable);

  explicit future(detail::outcome<T>& state) noexcept : state_(&state) {}

  detail::outcome<T>& state() const {
    if (state_ == nullptr) [[unlikely]]
      detail::throw_empty_future();
    return *state_;
  }

  detail::outcome<T>* state_ = nullptr;
};

namespace detail {

template <class T>
class outcome_awaiter : outcome_waiter {
 public:
  explicit outcome_awaiter(future<T>&& of) noexcept : future_(std::move(of)) {}
  // Before it is awaited.
  outcome_awaiter(outcome_awaiter&& other) noexcept : future_(std::move(other.future_)) {}

  static constexpr bool executor_affine = true;
  bool await_ready() const noexcept { return future_.state_->settled(); }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> awaiting) noexcept {
    const task_context& context = context_of(awaiting);
    waiting = awaiting;
    where = context.where;
    if (context.stop.stop_possible()) on_stop_.emplace(context.stop, cancel{this});
    context_ = &context;
    return future_.state_->await(*this) || gives_way(context, awaiting);
  }
  T await_resume() {
    on_stop_.reset();
    if (!future_.state_->settled()) throw_cancelled(*context_);
    return future_.get();
  }

 private:
  struct cancel {
    outcome_awaiter* self;
    void operator()() const noexcept {
      if (self->future_.state_->cancel_wait()) self->where->post(*self);
    }
  };

  future<T> future_;
  const task_context* context_ = nullptr;                 // once it has suspended
  std::optional<inplace_stop_callback<cancel>> on_stop_;  // ends before the future does
};

template <class F>
submission<std::decay_t<F>> make_future_task(F&& callable) {
  using task = submitted_task<std::decay_t<F>>;
  auto* const made = new task(std::forward<F>(callable));
  return {*made, future<submitted_result_t<std::decay_t<F>>>(*made)};
}

}  // namespace detail
}  // namespace gyre

// SPDX-License-Identifier: Apache-2.0
// future: the result of a task that was submitted to a pool.
//
//     gyre::future<int> answer = pool.submit([] { return compute(); });
//     int here = answer.get();  // in a thread, or
//
//     int there = co_await pool.submit(another_task);  // in a coroutine
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/droppable_operation.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/pool/detail/future_state.hpp>
#include <gyre/pool/detail/pool_task.hpp>
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
class future_state_awaiter;

/// Throws std::logic_error.
[[noreturn, gnu::cold]] void throw_empty_future();

/// The type of the result of a task that calls an F.
template <class F>
using submitted_result_t =
    std::conditional_t<std::is_rvalue_reference_v<std::invoke_result_t<F&>>,
                       std::remove_cvref_t<std::invoke_result_t<F&>>, std::invoke_result_t<F&>>;

/// A task that stores the result of its callable: the callable and the state of its future, in one
/// block of the slab (base/slab.hpp).
template <class F>
class submitted_task final : public future_state<submitted_result_t<F>> {
 public:
  template <class Source>
  explicit submitted_task(Source&& callable)
      : future_state<submitted_result_t<F>>(&run), callable_(std::forward<Source>(callable)) {}

  /// Destroys the callable; the future then throws std::errc::operation_canceled.
  void drop() noexcept override {
    std::destroy_at(&callable_);
    this->finish();
  }

 private:
  ~submitted_task() {}  // NOLINT: the callable is destroyed already
  void free() noexcept override { delete this; }

  // Destroys the callable before other threads can see the end of the task.
  static void run(operation& self) noexcept {
    auto& task = static_cast<submitted_task&>(self);
    {
      const future_state_base::run_scope scope(task);
      task.store_result_of(task.callable_);
      std::destroy_at(&task.callable_);
    }
    task.finish();
  }

  union {
    F callable_;
  };
};

/// A callable that runs a submitted_task; drops the task if it is destroyed without a call.
class owned_task {
 public:
  explicit owned_task(droppable_operation& task) noexcept : task_(&task) {}

  void operator()() { task_.release()->execute(); }

 private:
  std::unique_ptr<droppable_operation, task_dropper> task_;
};

/// A task, which a pool must execute or drop, and its future.
template <class F>
struct submission {
  submitted_task<F>& task;
  future<submitted_result_t<F>> result;
};

/// Throws std::bad_alloc, and the exceptions of copying or moving `callable`.
template <class F>
submission<std::decay_t<F>> make_future_task(F&& callable);

}  // namespace detail

/// A move-only handle of the result of a task that was submitted to a pool. It can be waited for
/// any number of times; get() or co_await takes the result, once. Destroying the future discards
/// the result; the task still runs.
///
/// A worker of any pool that waits for a future runs other tasks of its own pool meanwhile, on its
/// stack: hold no lock that these tasks may take. So a task that waits for others occupies no
/// thread. Two kinds of deadlock are detected, in get() and wait():
/// - A thread waits for a task that it is running itself, deeper in its stack.
/// - All workers of a pool wait for tasks of that pool, and none has enough stack left to run
///   another task. A worker reserves a quarter of its stack, at most 256 KiB.
///
/// Other cycles of waits, between several threads or by co_await, are not detected.
///
/// Thread-safety: one thread at a time.
/// Lifetime: a future may outlive its pool, which finishes or drops all tasks.
/// Errors: ready(), get(), the waits and co_await throw std::logic_error if the future is not
/// valid. get() and wait() throw std::system_error (std::errc::resource_deadlock_would_occur) for a
/// detected deadlock, after which the future stays valid. For a task that the pool dropped, get()
/// and co_await throw std::system_error (std::errc::operation_canceled); a stopped coroutine throws
/// gyre::operation_cancelled, which is not a std::exception.
/// Complexity: awaiting allocates nothing; outside a worker, a wait takes at most two system calls,
/// none if the task has finished.
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

  /// Whether the future has a task; false after a move, get() or co_await.
  [[nodiscard]] bool valid() const noexcept { return state_ != nullptr; }

  /// Whether the task has finished. Costs one load.
  [[nodiscard]] bool ready() const { return state().is_finished(); }

  /// Waits for the task, and returns its result or throws its exception. May be called once.
  T get() {
    state().wait_until(steady_time::max());
    const future source(std::move(*this));
    return source.state_->take();
  }

  /// Waits for the result, without a time limit, and does not take it.
  void wait() const { state().wait_until(steady_time::max()); }
  /// Waits at most for `limit`, and returns whether the task has finished. A pool's worker that
  /// runs another task meanwhile returns only after that task has ended.
  bool wait_for(duration limit) const {
    return state().is_finished() ||
           state().wait_until(detail::later(detail::monotonic_now(), limit));
  }
  /// Waits until `deadline` at the latest; see wait_for().
  bool wait_until(time_point deadline) const { return state().wait_until(deadline); }

  /// Awaited as `co_await std::move(future)` or `co_await pool.submit(…)`, returns or throws what
  /// get() does, on the coroutine's own executor. If the coroutine is requested to stop, the wait
  /// immediately throws gyre::operation_cancelled; the task runs nevertheless.
  ///
  /// Lifetime: do not destroy a coroutine that waits here, because its wake-up may already be
  /// posted: request a stop, and let the coroutine end.
  auto operator co_await() && {
    static_cast<void>(state());
    return detail::future_state_awaiter<T>(std::move(*this));
  }

 private:
  template <class>
  friend class detail::future_state_awaiter;
  template <class F>
  friend detail::submission<std::decay_t<F>> detail::make_future_task(F&& callable);

  explicit future(detail::future_state<T>& state) noexcept : state_(&state) {}

  detail::future_state<T>& state() const {
    if (state_ == nullptr) [[unlikely]]
      detail::throw_empty_future();
    return *state_;
  }

  detail::future_state<T>* state_ = nullptr;
};

namespace detail {

template <class T>
class future_state_awaiter : future_state_waiter {
 public:
  explicit future_state_awaiter(future<T>&& result) noexcept : future_(std::move(result)) {}
  // An awaiter moves only before it is awaited.
  future_state_awaiter(future_state_awaiter&& other) noexcept : future_(std::move(other.future_)) {}

  static constexpr bool executor_affine = true;
  bool await_ready() const noexcept { return future_.state_->is_finished(); }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) noexcept {
    const task_context& own_context = context_of(coroutine);
    waiting = coroutine;
    context = &own_context;
    if (own_context.stop.stop_possible()) on_stop_.emplace(own_context.stop, cancel{this});
    return future_.state_->await(*this) || gives_way(own_context, coroutine);
  }
  T await_resume() {
    on_stop_.reset();
    if (!future_.state_->is_finished()) throw_cancelled(*context);
    try {
      return future_.get();
    } catch (...) {
      note_taken_error(context);
      throw;
    }
  }

 private:
  struct cancel {
    future_state_awaiter* self;
    void operator()() const noexcept {
      if (self->future_.state_->cancel_wait()) self->context->where->post(*self);
    }
  };

  future<T> future_;
  std::optional<inplace_stop_callback<cancel>> on_stop_;  // last: destroyed before future_
};

template <class F>
submission<std::decay_t<F>> make_future_task(F&& callable) {
  using task = submitted_task<std::decay_t<F>>;
  auto* const new_task = new task(std::forward<F>(callable));
  return {*new_task, future<submitted_result_t<std::decay_t<F>>>(*new_task)};
}

}  // namespace detail
}  // namespace gyre

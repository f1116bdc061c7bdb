// SPDX-License-Identifier: Apache-2.0
// condition_variable: waits until the data that a mutex protects has changed.
//
//     auto guard = co_await mutex.lock();
//     co_await changed.wait(guard, [&] { return !queue.empty(); });
#pragma once

#include <gyre/sync/detail/primitive_wait.hpp>
#include <gyre/sync/detail/state_word.hpp>
#include <gyre/sync/detail/waiter.hpp>
#include <gyre/sync/mutex.hpp>
#include <gyre/task/detail/stop_callback_slot.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <cassert>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <expected>
#include <system_error>
#include <utility>

namespace gyre {
namespace detail {

/// A waiter that waits on the condition variable first, and then in the queue of the mutex.
struct condition_waiter : waiter {
  enum class stage : unsigned char { unlisted, condition, mutex };

  // The condition variable's lock guards current_stage and cancelled.
  stage current_stage = stage::unlisted;
  bool cancelled = false;
  gyre::mutex* relocked = nullptr;  // the mutex to lock again before resuming
};

}  // namespace detail

/// A line of coroutines that wait to be notified, first come, first served. A notified coroutine
/// joins the mutex's line and resumes when it has the lock, so that notify_all() causes no
/// thundering herd. There are no spurious wake-ups, but others may have held the mutex in between.
///
/// Thread-safety: every member may be called from any thread; the mutex need not be held to notify.
/// Lifetime: must outlive its waits. Simultaneous waits must use the same mutex.
/// Errors: a wait that is asked to stop locks the mutex again, and throws operation_cancelled.
/// Complexity: wait() and notify_one() are two exchanges each; no allocation; 24 bytes.
class condition_variable {
 public:
  class wait_operation;

  constexpr condition_variable() noexcept = default;
  ~condition_variable() {
    assert(waiters_.empty() &&
           "a gyre::condition_variable was destroyed while a coroutine waited for it");
  }

  /// Awaited, unlocks `guard`, waits to be notified, and locks again. Meanwhile `guard` owns no
  /// lock, and must not be moved.
  inline wait_operation wait(mutex::guard& guard) noexcept;
  /// Waits until `predicate()`, called with the mutex held, is true. Complexity: allocates a
  /// coroutine frame.
  template <std::predicate Predicate>
  task<> wait(mutex::guard& guard, Predicate predicate);

  /// Wakes the coroutine that has waited longest, if any.
  void notify_one() noexcept { notify(1); }
  /// Wakes all waiting coroutines.
  void notify_all() noexcept { notify(~std::size_t{0}); }

 private:
  using waiter = detail::condition_waiter;
  using line = detail::waiter_list<detail::waiter>;

  bool enlist(waiter& node) noexcept;
  void notify(std::size_t limit) noexcept;
  void cancel(waiter& node) noexcept;
  void abandon(waiter& node) noexcept;
  static void move(waiter& node, line& target) noexcept;
  static void hand_over(line& waiters) noexcept;

  detail::state_word lock_;
  line waiters_;  // the elements are of type condition_waiter
};

/// The awaitable of condition_variable::wait(), without a result.
class [[nodiscard]] condition_variable::wait_operation
    : waiter,
      detail::stop_callback_slot<condition_variable::wait_operation> {
 public:
  wait_operation(condition_variable& condition, mutex::guard& guard) noexcept
      : condition_(&condition), guard_(&guard) {}
  wait_operation(const wait_operation& other) noexcept
      : wait_operation(*other.condition_, *other.guard_) {}
  ~wait_operation() {
    if (context() != nullptr) [[unlikely]] {
      if (has_callback()) remove_stop_callback(context()->stop);
      condition_->abandon(*this);
    }
  }

  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) noexcept {
    assert(guard_->owns_lock() && "a wait for a gyre::condition_variable without the mutex");
    const task_context& context = detail::context_of(coroutine);
    const inplace_stop_token stop_token = context.stop;
    mutex& target = *guard_->release();
    relocked = &target;
    begin_wait(coroutine, context, stop_token.stop_possible());
    if (stop_token.stop_possible()) add_stop_callback(stop_token);
    if (!condition_->enlist(*this)) return detail::gives_way(context, coroutine);
    // The coroutine may resume from here on, or be destroyed, and this object with it.
    target.unlock();
    return true;
  }
  void await_resume() {
    if (const task_context* const context = finish()) detail::throw_cancelled(*context);
  }
  /// Like await_resume(), but returns the error instead of throwing it.
  std::expected<void, std::error_code> result() {
    if (const task_context* const context = finish()) return detail::cancelled_result(*context);
    return {};
  }

 private:
  friend detail::stop_callback_slot<wait_operation>;

  void stop() noexcept { condition_->cancel(*this); }

  // Ends the wait. Returns its context if the wait was cancelled, else null.
  const task_context* finish() noexcept {
    if (has_callback()) remove_stop_callback(context()->stop);
    const task_context* const waited_in = context();
    end_wait();
    *guard_ = mutex::guard(*relocked, std::adopt_lock);
    return cancelled ? waited_in : nullptr;
  }

  condition_variable* condition_;
  mutex::guard* guard_;
};

inline auto condition_variable::wait(mutex::guard& guard) noexcept -> wait_operation {
  return wait_operation(*this, guard);
}

template <std::predicate Predicate>
task<> condition_variable::wait(mutex::guard& guard, Predicate predicate) {
  while (!predicate()) co_await wait(guard);
}

}  // namespace gyre

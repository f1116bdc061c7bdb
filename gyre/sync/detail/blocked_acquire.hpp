// SPDX-License-Identifier: Apache-2.0
// blocked_acquire: a thread that blocks in the line of a semaphore, among the coroutines there.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/detail/futex.hpp>
#include <gyre/sync/semaphore.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/executor.hpp>

#include <cstdint>
#include <utility>

namespace gyre::detail {

/// The wait of one thread. The semaphore wakes the thread as it wakes coroutines, by a post to an
/// executor. This object is that executor: its post() ends the thread's sleep and runs nothing.
///
/// Thread-safety: belongs to the thread that waits.
/// Lifetime: the semaphore must outlive this.
/// Complexity: no allocation; a system call to sleep, and one to be woken.
class blocked_acquire final : semaphore_waiter, executor {
 public:
  /// Takes `count` permits, or joins the line for them.
  blocked_acquire(semaphore& source, std::uint64_t count) noexcept
      : semaphore_waiter(count), source_(source) {
    context_.where = this;
    begin_wait(nullptr, context_, false);
    // relaxed: no other thread will access end_flag_.
    if (!source_.enlist(*this)) end_flag_.store(1, std::memory_order_relaxed);
  }
  blocked_acquire& operator=(blocked_acquire&&) = delete;
  /// Ends the wait, and releases its permits, unless end() was called before.
  ~blocked_acquire() {
    if (const std::uint64_t count = end(); count > 0) source_.release(count);
  }

  /// Returns whether the wait is over: the permits were granted, or the semaphore was closed.
  [[nodiscard]] bool has_ended() const noexcept {
    // acquire: pairs with the release in post(); makes the granted permits visible.
    return end_flag_.load(std::memory_order_acquire) != 0;
  }
  /// Sleeps until the wait is over or until `deadline`; may return early. Call has_ended() to
  /// check.
  void sleep_until(steady_time deadline) noexcept { futex_wait_until(end_flag_, 0, deadline); }
  /// Ends the wait. Returns how many permits the thread has now: the requested number, fewer after
  /// serve_waits(), or none.
  [[nodiscard]] std::uint64_t end() noexcept {
    if (!std::exchange(waits_, false)) return 0;
    const bool has_given_up = !has_ended() && source_.withdraw(*this);
    // The wait was completed, so post() is being called, and still needs this object.
    while (!has_given_up && !has_ended()) sleep_until(steady_time::max());
    end_wait();
    return has_given_up ? 0 : permits;
  }

 private:
  void post(operation& /*wake_up*/) noexcept override {
    const auto* const word = &end_flag_;
    // release: pairs with the acquire in has_ended(). The waiting thread may destroy this object
    // from here on.
    end_flag_.store(1, std::memory_order_release);
    futex_wake_one(word);
  }
  bool running_here() const noexcept override { return false; }

  semaphore& source_;
  task_context context_;
  atomic<std::uint32_t> end_flag_{0};
  bool waits_ = true;  // whether end() was not called yet
};

}  // namespace gyre::detail

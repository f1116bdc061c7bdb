// SPDX-License-Identifier: Apache-2.0
// timer_thread: the timers of an executor with several threads: a wheel behind a mutex, and a
// thread that sleeps until a timer is due and then posts to the executor. It runs no user's code.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/detail/named_thread.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/base/timer_wheel.hpp>
#include <gyre/task/executor.hpp>

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace gyre::detail {

/// A due timer stays in the wheel until a thread of the executor takes it out and at once calls its
/// function: so cancelling is exact, and a function that takes long holds up no other timer.
///
/// Thread-safety: any thread, but for stop(); a timer is started or cancelled by one at a time.
/// Complexity: memory and a thread with the first ensure_started(). Each timer that expires costs
/// one post; all that are due together, one wake-up of the thread. Starting and cancelling costs a
/// mutex, and a system call only for a deadline that is earlier than all others.
class timer_thread final : public timer_service, operation {
 public:
  /// Timers expire on the threads of `target`, which must outlive this. The kernel keeps the first
  /// 15 bytes of the thread's name.
  timer_thread(executor& target, std::string name);
  /// Calls stop(). The executor must have run all operations.
  ~timer_thread();

  /// Starts the thread, once, and returns this object; null without memory or threads. Not after
  /// stop(). Complexity: one load once the thread was started.
  timer_service* ensure_started() noexcept;

  // These require an ensure_started() before.
  void start_timer(timer_operation& timer, steady_time deadline) noexcept override;
  bool cancel_timer(timer_operation& timer) noexcept override;
  steady_time now() const noexcept override { return monotonic_now(); }

  /// The number of timers that are started.
  std::size_t pending() const noexcept;

  /// Ends the thread: no timer expires any more, except those that have begun to. Returns the
  /// number of timers that must still be cancelled. Idempotent; one thread at a time, also of the
  /// executor.
  std::size_t stop() noexcept;

 private:
  void run();
  void expire_one();

  executor& target_;
  const std::string name_;

  mutable std::mutex mutex_;
  std::condition_variable condition_;
  std::unique_ptr<timer_wheel> wheel_;          // null until the thread is started
  steady_time wake_time_ = steady_time::min();  // the end of the thread's sleep
  bool is_expiring_ = false;                    // this operation is posted
  bool is_stopping_ = false;

  std::optional<named_thread> thread_;
  atomic<bool> is_started_{false};
};

}  // namespace gyre::detail

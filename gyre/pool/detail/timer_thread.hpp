// SPDX-License-Identifier: Apache-2.0
// timer_thread: timers for an executor with several threads: a wheel protected by a mutex, and a
// thread that sleeps until a timer is due and then posts to the executor. The thread runs no user
// code.
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

/// A due timer stays in the wheel until a thread of the executor removes it and immediately calls
/// its function. So cancelling is exact, and a slow function delays no other timer.
///
/// Thread-safety: any thread, except for stop(); a timer is started or cancelled by one thread at a
/// time.
/// Complexity: the first ensure_started() allocates memory and starts a thread. Each timer that
/// expires costs one post; all that are due at the same time cost one wake-up of the thread.
/// Starting and cancelling lock a mutex; a system call is needed only for a deadline earlier than
/// all others.
class timer_thread final : public timer_service, operation {
 public:
  /// Timers expire on the threads of `target`, which must outlive this object. The kernel keeps the
  /// first 15 bytes of the thread's name.
  timer_thread(executor& target, std::string name);
  /// Calls stop(). The executor must have run all operations.
  ~timer_thread();

  /// Starts the thread, once, and returns this object; null if memory or threads are exhausted.
  /// Must not be called after stop(). Complexity: one load once the thread was started.
  timer_service* ensure_started() noexcept;

  // These functions require an earlier ensure_started().
  void start_timer(timer_operation& timer, steady_time deadline) noexcept override;
  bool cancel_timer(timer_operation& timer) noexcept override;
  steady_time now() const noexcept override { return monotonic_now(); }

  /// The number of timers in the wheel.
  std::size_t pending() const noexcept;

  /// Ends the thread: no further timer expires, except those already being expired. Returns the
  /// number of timers that must still be cancelled. Idempotent. Must be called by one thread at a
  /// time, which may be a thread of the executor.
  std::size_t stop() noexcept;

 private:
  void run();
  void expire_timer();

  executor& target_;
  const std::string name_;

  mutable std::mutex mutex_;
  std::condition_variable condition_;
  std::unique_ptr<timer_wheel> wheel_;          // null until the thread is started
  steady_time wake_time_ = steady_time::min();  // the end of the thread's sleep
  bool is_posted_ = false;                      // whether this operation is posted
  bool is_stopping_ = false;

  std::optional<named_thread> thread_;
  atomic<bool> is_started_{false};
};

}  // namespace gyre::detail

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
/// Complexity: memory and a thread with the first started(). Each timer that expires costs one
/// post; all that are due together, one wake-up of the thread. Starting and cancelling costs a
/// mutex, and a system call only for a deadline that is earlier than all others.
class timer_thread final : public timer_service, operation {
 public:
  /// Timers expire on the threads of `target`, which must outlive this. The kernel keeps the first
  /// 15 bytes of the thread's name.
  timer_thread(executor& target, std::string name);
  /// Calls stop(). The executor must have run all operations.
  ~timer_thread();

  /// This, with its thread; null without memory or threads. One load later on. Not after stop().
  timer_service* started() noexcept;

  // These need started() first.
  void start_timer(timer_operation& timer, steady_time deadline) noexcept override;
  bool cancel_timer(timer_operation& timer) noexcept override;
  steady_time now() const noexcept override { return monotonic_now(); }

  /// How many timers are started.
  std::size_t pending() const noexcept;

  /// Ends the thread: from now on no timer expires, but those that have begun to. Returns how many
  /// are left, to be cancelled. Idempotent; one thread at a time, also of the executor.
  std::size_t stop() noexcept;

 private:
  void run();
  void expire_one();

  executor& target_;
  const std::string name_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<timer_wheel> wheel_;             // once started
  steady_time sleeps_until_ = steady_time::min();  // an earlier deadline must wake the thread
  bool expiring_ = false;                          // this is posted
  bool stopping_ = false;

  std::optional<named_thread> thread_;
  atomic<bool> started_{false};
};

}  // namespace gyre::detail

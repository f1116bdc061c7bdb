// SPDX-License-Identifier: Apache-2.0
// The timers of an executor with several threads: a wheel behind a mutex, and a thread that sleeps
// until something is due and then has the executor see to it. It runs nobody's code itself.
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

/// Timers that expire on the threads of `where`. All members from any thread, but stop(); a timer
/// is started or cancelled by one at a time.
///
/// Whatever is due stays in the wheel until a thread of the executor takes it out, which then calls
/// its function and nothing before that: so cancelling is exact, and a function that takes long
/// holds up no other timer. Each timer that expires costs one post; all that fall due together, one
/// wake-up of the thread. Starting and cancelling costs a mutex, and a system call only for a
/// deadline that is earlier than all others.
///
/// Takes memory and a thread with the first started().
class timer_thread final : public timer_service, operation {
 public:
  /// `where` must outlive this. The kernel keeps the first 15 bytes of the thread's name.
  timer_thread(executor& where, std::string name);
  timer_thread(const timer_thread&) = delete;
  timer_thread& operator=(const timer_thread&) = delete;
  /// Stops. `where` has run all that was posted to it.
  ~timer_thread();

  /// This, with its thread; null if the system has no memory or thread for it. One load, but for
  /// the first time. Not after stop().
  timer_service* started() noexcept;

  // For whoever has it from started().
  void start_timer(timer_operation& timer, steady_time deadline) noexcept override;
  bool cancel_timer(timer_operation& timer) noexcept override;
  steady_time now() const noexcept override { return monotonic_now(); }

  /// How many timers are started.
  std::size_t pending() const noexcept;

  /// Ends the thread: from now on nothing expires, but what has begun to. Returns how many timers
  /// are left, which can still be cancelled. Idempotent; by one thread at a time, also one of the
  /// executor's.
  std::size_t stop() noexcept;

 private:
  void run();
  void expire_one();

  executor& where_;
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

// SPDX-License-Identifier: Apache-2.0
// executor_watchdog: reports a loop or a pool that has run nothing for too long, because a task, a
// handler or a coroutine holds its threads.
//
//     gyre::executor_watchdog watchdog({.limit = 100ms});
//     watchdog.watch(loop, "network");
//
// After 100 ms in which one function keeps the loop, it prints:
//
// > gyre: 'network' has been held for 100 ms by handler GET /report (thread 4711): move that to a
// > thread_pool
// >   at build_report (/usr/bin/server+0x4f21)
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/named_thread.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/task/executor.hpp>

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gyre {

/// An executor that has not run its last heartbeat in time.
struct held_executor {
  /// The name passed to watch(); valid during the call.
  std::string_view name;
  executor* target = nullptr;
  /// The time since the heartbeat was posted, at least the limit; for on_release, the time until
  /// the heartbeat ran.
  std::chrono::nanoseconds duration{0};
  /// The kernel's id of the thread that ran the executor's last heartbeat, as in `top -H`; 0 if
  /// there was none. This is the thread that is held, unless the executor has several threads, or
  /// runs on another one now.
  pid_t thread = 0;
  /// The task, coroutine or handler that the thread runs, by the flight recorder (gyre/trace), such
  /// as "handler GET /report"; empty if it is not known, and for on_release. Valid during the call.
  std::string_view activity = {};
  /// The calls that the thread is in, the innermost first, such as
  /// "build_report (/usr/bin/server+0x4f21)", where addr2line(1) finds the line; empty unless
  /// executor_watchdog_options::captures_stacks, and for on_release. Valid during the call.
  std::span<const std::string> stack = {};
};

/// Settings of an executor_watchdog.
struct executor_watchdog_options {
  /// The shortest delay that is reported. The watchdog posts a heartbeat to each executor once in
  /// this time, so an idle loop wakes that often, and a delay of `limit` is noticed after twice the
  /// limit at the latest. Must be positive.
  duration limit = std::chrono::milliseconds{100};
  /// Called once for each delay, while it lasts, on the watchdog's thread; must not throw, and must
  /// not call the watchdog. If empty, the watchdog prints the report to stderr.
  move_only_function<void(const held_executor&)> on_hold = {};
  /// Called on the watchdog's thread when a reported delay has ended; must not throw, and must not
  /// call the watchdog. May be empty.
  move_only_function<void(const held_executor&)> on_release = {};
  /// Whether to capture the stack of a thread that is held, once for each report, by a SIGVTALRM,
  /// unless the program has a handler for that signal. A system call of the thread that a signal
  /// interrupts, such as nanosleep(2), then returns early with EINTR.
  bool captures_stacks = true;
};

/// Finds executors whose threads are held, by a heartbeat: an operation that is posted
/// periodically, and that runs late if a function blocks, computes for long or never yields, or if
/// there is more work than the threads can do, or if no thread runs the loop. For production, in
/// Release builds, as well as for tests. runtime_options::watchdog sets one up. If the watchdog
/// itself does not run for 100 ms or longer, the whole process was paused, and no executor is
/// blamed; the flight recorder gets an event.
///
/// Thread-safety: every member may be called from any thread.
/// Lifetime: an executor that is watched outlives the watchdog, or forget() is called before its
/// end. The destructor does not wait for executors that are held.
/// Complexity: a thread, and a post per executor and `limit`.
class executor_watchdog {
 public:
  using options = executor_watchdog_options;

  /// Throws std::invalid_argument for a limit that is not positive; std::system_error (EAGAIN) if
  /// there are too many threads.
  explicit executor_watchdog(options settings = {});
  executor_watchdog& operator=(executor_watchdog&&) = delete;
  ~executor_watchdog();

  /// Watches `target` from now on; if it is watched already, changes its name. Throws
  /// std::bad_alloc.
  void watch(executor& target, std::string name);
  /// Ends the watch of `target`, which is not used afterwards. Does nothing if `target` is not
  /// watched.
  void forget(executor& target) noexcept;

  /// Returns the number of delays that were reported.
  [[nodiscard]] std::uint64_t holds() const noexcept;

 private:
  class heartbeat;
  struct watched_executor {
    executor* target;
    std::string name;
    std::shared_ptr<heartbeat> beat;
  };

  void run();
  void check(watched_executor& entry, steady_time now);
  void report_hold(const watched_executor& entry, steady_time now);
  void note_pause(duration length) noexcept;

  options options_;
  mutable std::mutex mutex_;
  std::condition_variable stop_condition_;
  bool is_stop_requested_ = false;
  std::uint64_t holds_ = 0;
  std::vector<watched_executor> executors_;
  detail::named_thread thread_;
};

}  // namespace gyre

// SPDX-License-Identifier: Apache-2.0
// Timing of a run: clocks, a stopwatch with a deliberate handicap, and an event on which main waits
// for the threads that do the work.
#pragma once

#include <time.h>

#include <chrono>
#include <concepts>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace lab {

using clock = std::chrono::steady_clock;

/// Processor time, user and system, that all threads of the process have used so far.
inline double cpu_seconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

/// Processor time that the calling thread has used so far.
inline double thread_cpu_seconds() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

/// Times one stretch of work.
/// Thread-safety: start() and stop() may be called on different threads when something else orders
/// the calls.
class stopwatch {
 public:
  /// `handicap_percent`: percent by which the work is slowed down on purpose (see stop()).
  explicit stopwatch(double handicap_percent = 0) : handicap_(handicap_percent / 100) {}

  void start() { began_ = clock::now(); }

  /// Ends the stretch. A handicap first keeps the calling thread busy for that share of the elapsed
  /// time, so that a contender is slower by a known amount; the lab tests itself with it.
  void stop() {
    ended_ = clock::now();
    if (handicap_ > 0) {
      const auto until =
          ended_ + std::chrono::duration_cast<clock::duration>((ended_ - began_) * handicap_);
      while (ended_ < until) ended_ = clock::now();
    }
  }

  double seconds() const { return std::chrono::duration<double>(ended_ - began_).count(); }

 private:
  double handicap_;
  clock::time_point began_;
  clock::time_point ended_;
};

/// The event "the work is done", with a watchdog: main waits for it, or until the work has stalled.
class completion_event {
 public:
  /// Ends one wait().
  /// Thread-safety: any thread, once per wait().
  void set() {
    // Notified under the lock: the waiter may destroy this object as soon as it has the lock.
    const std::lock_guard lock(mutex_);
    set_ = true;
    changed_.notify_one();
  }

  /// Waits for set(); false when `progress()`, a number that grows as the work goes on, has not
  /// changed for `patience`. Everything before set() happens before a return of true.
  template <std::invocable Progress>
  bool wait(Progress progress, std::chrono::milliseconds patience = std::chrono::seconds(10)) {
    std::unique_lock lock(mutex_);
    auto before = progress();
    while (!changed_.wait_for(lock, patience, [this] { return set_; })) {
      const auto now = progress();
      if (now == before) return false;
      before = now;
    }
    set_ = false;
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

}  // namespace lab

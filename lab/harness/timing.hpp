// SPDX-License-Identifier: Apache-2.0
// How a run is timed: the clocks, the stopwatch with its deliberate handicap, and the finish line
// at which main waits for the threads that do the work.
#pragma once

#include <time.h>

#include <chrono>
#include <concepts>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace lab {

using clock = std::chrono::steady_clock;

/// Processor time, of user and system, that all threads of the process have used so far.
inline double cpu_seconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

/// Times one stretch of work. start() and stop() may be called on different threads when something
/// else orders them.
class stopwatch {
 public:
  /// `handicap_percent`: how much longer the work is made to take, on purpose (see stop()).
  explicit stopwatch(double handicap_percent = 0) : handicap_(handicap_percent / 100) {}

  void start() { began_ = clock::now(); }

  /// Ends the stretch. With a handicap, first keeps the calling thread busy for that share of the
  /// time gone by, so that a contender is slower by a known amount; the lab tests itself with it.
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

/// Where main waits until the work is done, or until it has clearly come to a stand.
class finish_line {
 public:
  /// The work is done. Any thread, once per wait().
  void cross() {
    // Notified under the lock: the waiter may destroy this object as soon as it has the lock.
    const std::lock_guard lock(mutex_);
    crossed_ = true;
    changed_.notify_one();
  }

  /// Waits for cross(); false when `progress()`, a number that grows as the work goes on, has not
  /// changed for `patience`. What happened before cross() is visible after a true return.
  template <std::invocable Progress>
  bool wait(Progress progress, std::chrono::milliseconds patience = std::chrono::seconds(10)) {
    std::unique_lock lock(mutex_);
    auto before = progress();
    while (!changed_.wait_for(lock, patience, [this] { return crossed_; })) {
      const auto now = progress();
      if (now == before) return false;
      before = now;
    }
    crossed_ = false;
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool crossed_ = false;
};

}  // namespace lab

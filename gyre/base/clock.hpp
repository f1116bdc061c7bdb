// SPDX-License-Identifier: Apache-2.0
// steady_time: monotonic time. Only pollers, pools and blocking waits of threads read the clock;
// all other code asks its executor, so that a simulated one can use virtual time.
#pragma once

#include <chrono>
#include <ctime>

namespace gyre {

/// A point in monotonic time, in nanoseconds: never goes back, stands still while the machine
/// sleeps, and has nothing to do with the time of day.
using steady_time = std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds>;

namespace detail {

/// The present time (CLOCK_MONOTONIC). Any thread. About 20 ns, and no system call where the kernel
/// offers the clock in the vDSO.
inline steady_time monotonic_now() noexcept { return std::chrono::steady_clock::now(); }

/// `start` plus `delay`, at most steady_time::max(). A negative delay counts as zero.
constexpr steady_time later(steady_time start, std::chrono::nanoseconds delay) noexcept {
  using std::chrono::nanoseconds;
  const nanoseconds since_epoch = start.time_since_epoch();
  if (delay <= nanoseconds{0}) return start;
  if (since_epoch > nanoseconds::max() - delay) return steady_time::max();
  return start + delay;
}

/// `duration` in seconds and the nanoseconds beyond them, which are never negative.
inline std::timespec to_timespec(std::chrono::nanoseconds duration) noexcept {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(duration);
  return {.tv_sec = static_cast<std::time_t>(seconds.count()),
          .tv_nsec = static_cast<long>((duration - seconds).count())};
}

}  // namespace detail
}  // namespace gyre

// SPDX-License-Identifier: Apache-2.0
// steady_time: monotonic time; time_point: the parameter type for it. Only pollers, pools and
// blocking waits of threads read the clock; all other code gets the time from its executor, so that
// a simulated executor can use virtual time.
#pragma once

#include <gyre/base/duration.hpp>

#include <chrono>
#include <concepts>
#include <ctime>

namespace gyre {

/// A point in monotonic time, in nanoseconds: never decreases, stands still while the machine
/// sleeps, and is unrelated to the time of day.
using steady_time = std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds>;

/// A steady_time as a parameter. Every time point of std::chrono::steady_clock, in any unit and
/// with fractions, converts to a time_point and saturates like a duration.
class time_point : public steady_time {
 public:
  constexpr time_point() noexcept = default;
  constexpr time_point(steady_time moment) noexcept : steady_time{moment} {}
  template <class Rep, class Period>
    requires(std::integral<Rep> || std::floating_point<Rep>)
  constexpr time_point(
      std::chrono::time_point<std::chrono::steady_clock, std::chrono::duration<Rep, Period>>
          moment) noexcept
      : steady_time{gyre::duration{moment.time_since_epoch()}} {}
};

namespace detail {

/// Returns the present time (CLOCK_MONOTONIC). Any thread. About 20 ns, and no system call if the
/// kernel offers the clock in the vDSO.
inline steady_time monotonic_now() noexcept { return std::chrono::steady_clock::now(); }

/// Returns `start` plus `delay`, at most steady_time::max(). A negative delay counts as zero.
constexpr steady_time later(steady_time start, duration delay) noexcept {
  using std::chrono::nanoseconds;
  const nanoseconds since_epoch = start.time_since_epoch();
  if (delay <= nanoseconds{0}) return start;
  if (since_epoch > nanoseconds::max() - delay) return steady_time::max();
  return start + delay;
}

/// Returns `value` as seconds and additional nanoseconds, which are never negative.
inline std::timespec to_timespec(duration value) noexcept {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(value);
  return {.tv_sec = static_cast<std::time_t>(seconds.count()),
          .tv_nsec = static_cast<long>((value - seconds).count())};
}

}  // namespace detail
}  // namespace gyre

// SPDX-License-Identifier: Apache-2.0
// wall_now, last_tick, sleep_for: system clocks besides the one of clock.hpp, and a sleep.
#pragma once

#include <gyre/base/clock.hpp>

#include <chrono>
#include <ctime>

namespace gyre::detail {

/// Returns the time of day. Any thread.
inline std::chrono::system_clock::time_point wall_now() noexcept {
  return std::chrono::system_clock::now();
}

/// Returns the monotonic time of the kernel's last tick, some milliseconds ago: the cheapest clock.
inline steady_time last_tick() noexcept {
  std::timespec tick{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &tick);
  return steady_time(std::chrono::seconds(tick.tv_sec) + std::chrono::nanoseconds(tick.tv_nsec));
}

/// Blocks the calling thread for `time`, or until a signal is handled.
inline void sleep_for(std::chrono::nanoseconds time) noexcept {
  const auto whole_seconds = std::chrono::floor<std::chrono::seconds>(time);
  const std::timespec duration{.tv_sec = whole_seconds.count(),
                               .tv_nsec = (time - whole_seconds).count()};
  ::nanosleep(&duration, nullptr);
}

}  // namespace gyre::detail

// SPDX-License-Identifier: Apache-2.0
// to_timespec: a duration as system calls take it.
#pragma once

#include <chrono>
#include <ctime>

namespace gyre::detail {

/// `duration` in seconds and the nanoseconds beyond them, which are never negative.
inline std::timespec to_timespec(std::chrono::nanoseconds duration) noexcept {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(duration);
  return {.tv_sec = static_cast<std::time_t>(seconds.count()),
          .tv_nsec = static_cast<long>((duration - seconds).count())};
}

}  // namespace gyre::detail

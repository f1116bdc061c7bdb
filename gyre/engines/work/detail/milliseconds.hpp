// SPDX-License-Identifier: Apache-2.0
// to_milliseconds: a duration in the form that the functions of the schema take.
#pragma once

#include <gyre/base/duration.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

namespace gyre::work::detail {

/// Returns `time` in milliseconds, rounded up.
[[nodiscard]] inline std::int64_t to_milliseconds(duration time) noexcept {
  // The maximum, a century below the longest duration, so that rounding cannot overflow.
  constexpr std::chrono::nanoseconds longest = std::chrono::hours{24} * 365 * 190;
  return std::chrono::ceil<std::chrono::milliseconds>(
             std::min<std::chrono::nanoseconds>(time, longest))
      .count();
}

[[nodiscard]] inline std::optional<std::int64_t> to_milliseconds(
    const std::optional<duration>& time) noexcept {
  return time ? std::optional(to_milliseconds(*time)) : std::nullopt;
}

}  // namespace gyre::work::detail

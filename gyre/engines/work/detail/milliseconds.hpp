// SPDX-License-Identifier: Apache-2.0
// Lengths of time as the functions of the schema take them.
#pragma once

#include <gyre/base/duration.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

namespace gyre::work::detail {

/// `length` in milliseconds, rounded up.
[[nodiscard]] inline std::int64_t to_milliseconds(duration length) noexcept {
  // A century less than the longest duration, so that rounding does not overflow.
  constexpr std::chrono::nanoseconds longest = std::chrono::hours{24} * 365 * 190;
  return std::chrono::ceil<std::chrono::milliseconds>(
             std::min<std::chrono::nanoseconds>(length, longest))
      .count();
}

[[nodiscard]] inline std::optional<std::int64_t> to_milliseconds(
    const std::optional<duration>& length) noexcept {
  return length ? std::optional(to_milliseconds(*length)) : std::nullopt;
}

}  // namespace gyre::work::detail

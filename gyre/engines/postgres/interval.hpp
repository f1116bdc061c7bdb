// SPDX-License-Identifier: Apache-2.0
// interval: a span of PostgreSQL's calendar: months, days and time, which are not multiples of each
// other.
#pragma once

#include <chrono>
#include <cstdint>

namespace gyre::postgres {

/// A value of PostgreSQL's type interval.
struct interval {
  std::int32_t months = 0;
  std::int32_t days = 0;
  std::chrono::microseconds time = {};

  friend constexpr bool operator==(const interval&, const interval&) noexcept = default;
};

}  // namespace gyre::postgres

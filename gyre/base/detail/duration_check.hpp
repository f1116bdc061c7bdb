// SPDX-License-Identifier: Apache-2.0
// require_positive, require_not_negative: check options that are durations; whole_units: converts a
// duration for a system call.
#pragma once

#include <gyre/base/duration.hpp>

#include <algorithm>
#include <chrono>
#include <limits>
#include <string_view>

namespace gyre::detail {

/// Both functions throw std::invalid_argument unless `value` is as required. The message has
/// `name`, such as "gyre::retry: time_limit", and the value.
void require_positive(duration value, std::string_view name);
void require_not_negative(duration value, std::string_view name);

/// Returns `value` in whole units, rounded up, and at most `max_count`.
template <class Unit>
constexpr int whole_units(duration value,
                          int max_count = std::numeric_limits<int>::max()) noexcept {
  using count = typename Unit::rep;
  return static_cast<int>(std::clamp<count>(std::chrono::ceil<Unit>(value).count(),
                                            std::numeric_limits<int>::min(), max_count));
}

}  // namespace gyre::detail

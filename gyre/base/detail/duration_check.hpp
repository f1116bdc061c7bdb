// SPDX-License-Identifier: Apache-2.0
// require_positive, require_not_negative: checks of options that are lengths of time, and
// whole_units: a length of time for a system call.
#pragma once

#include <gyre/base/duration.hpp>

#include <algorithm>
#include <chrono>
#include <limits>
#include <string_view>

namespace gyre::detail {

/// Throw std::invalid_argument with `name`, such as "gyre::retry: time_limit", and the length.
void require_positive(duration length, std::string_view name);
void require_not_negative(duration length, std::string_view name);

/// `length` in whole units, rounded up, and at most `longest`.
template <class Unit>
constexpr int whole_units(duration length, int longest = std::numeric_limits<int>::max()) noexcept {
  using count = typename Unit::rep;
  return static_cast<int>(std::clamp<count>(std::chrono::ceil<Unit>(length).count(),
                                            std::numeric_limits<int>::min(), longest));
}

}  // namespace gyre::detail

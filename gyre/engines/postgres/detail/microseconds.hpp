// SPDX-License-Identifier: Apache-2.0
// Conversions between std::chrono and PostgreSQL's counts of microseconds and days, which have
// infinities.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <ratio>

namespace gyre::postgres::detail {

// The epoch of PostgreSQL's times: 1 January 2000.
inline constexpr std::int64_t epoch_days = 10957;
inline constexpr std::int64_t epoch_microseconds = epoch_days * 86'400'000'000;

/// A number of units since 1970, or an infinity; none: out of range.
struct count_since_epoch {
  enum class kind : std::uint8_t { finite, infinite, negative_infinite, out_of_range };
  kind which = kind::finite;
  std::int64_t count = 0;
};

/// Rounds a length down; returns nothing if it does not fit.
template <std::integral Rep, class Period>
constexpr std::optional<std::chrono::microseconds> to_microseconds(
    std::chrono::duration<Rep, Period> length) noexcept {
  using std::chrono::microseconds;
  if constexpr (std::ratio_less_equal_v<Period, std::micro>) {
    return std::chrono::floor<microseconds>(length);
  } else {
    using in_unit = std::ratio_divide<Period, std::micro>;
    static_assert(in_unit::den == 1, "a unit of time is a multiple or a part of a microsecond");
    constexpr std::int64_t max_value = std::numeric_limits<std::int64_t>::max() / in_unit::num;
    const auto count = static_cast<std::int64_t>(length.count());
    if (count > max_value || count < -max_value) return std::nullopt;
    return microseconds(count * in_unit::num);
  }
}

template <std::integral Rep, class Period>
constexpr count_since_epoch microseconds_of(std::chrono::duration<Rep, Period> time) noexcept {
  using kind = count_since_epoch::kind;
  if (time == time.max()) return {kind::infinite, 0};
  if (time == time.min()) return {kind::negative_infinite, 0};
  const auto count = to_microseconds(time);
  if (!count) return {kind::out_of_range, 0};
  return {kind::finite, count->count()};
}

template <std::integral Rep, class Period>
constexpr count_since_epoch days_of(std::chrono::duration<Rep, Period> time) noexcept {
  using kind = count_since_epoch::kind;
  if (time == time.max()) return {kind::infinite, 0};
  if (time == time.min()) return {kind::negative_infinite, 0};
  return {kind::finite, static_cast<std::int64_t>(time.count())};
}

/// Converts a number of microseconds to another unit; std::nullopt if it does not fit, or would be
/// rounded.
template <class Duration>
constexpr std::optional<Duration> from_microseconds(std::chrono::microseconds time) noexcept {
  if constexpr (std::ratio_less_v<typename Duration::period, std::micro>) {
    constexpr auto factor = std::ratio_divide<std::micro, typename Duration::period>::num;
    constexpr std::int64_t max_value = std::numeric_limits<std::int64_t>::max() / factor;
    if (time.count() > max_value || time.count() < -max_value) return std::nullopt;
    return std::chrono::duration_cast<Duration>(time);
  } else {
    const auto result = std::chrono::floor<Duration>(time);
    if (result != time) return std::nullopt;
    return result;
  }
}

}  // namespace gyre::postgres::detail

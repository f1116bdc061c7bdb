// SPDX-License-Identifier: Apache-2.0
// duration: a length of time as a parameter or an option, converted from any std::chrono::duration.
//
//     const gyre::duration longest = std::chrono::hours::max();  // 292 years, not a negative length
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <ratio>
#include <type_traits>
#include <utility>

namespace gyre {

/// A length of time in nanoseconds. Every std::chrono::duration of an integral or floating type
/// converts to a duration and saturates: a length of more than 292 years becomes max(), one below
/// -292 years min(). Fractions of a nanosecond are dropped, and a NaN becomes zero.
///
/// std::chrono's own conversion to nanoseconds overflows, so that hours::max() becomes a negative
/// length. For this reason parameters and options have this type instead.
///
/// Complexity: one multiplication and two comparisons for an integral duration; none for
/// nanoseconds.
class duration : public std::chrono::nanoseconds {
  using nanoseconds = std::chrono::nanoseconds;

 public:
  constexpr duration() noexcept : nanoseconds{0} {}
  constexpr duration(nanoseconds length) noexcept : nanoseconds{length} {}
  template <class Rep, class Period>
    requires(std::integral<Rep> || std::floating_point<Rep>)
  constexpr duration(std::chrono::duration<Rep, Period> length) noexcept
      : nanoseconds{saturated(length)} {}

  static constexpr duration zero() noexcept { return nanoseconds::zero(); }
  static constexpr duration max() noexcept { return nanoseconds::max(); }
  static constexpr duration min() noexcept { return nanoseconds::min(); }

 private:
  template <class Rep, class Period>
  static constexpr nanoseconds saturated(std::chrono::duration<Rep, Period> length) noexcept {
    constexpr auto max_count = nanoseconds::max().count();
    constexpr auto min_count = nanoseconds::min().count();
    constexpr auto parts_of_second = std::nano::den;
    constexpr bool is_whole = parts_of_second % Period::den == 0 &&
                              Period::num <= max_count / (parts_of_second / Period::den);
    if constexpr (std::integral<Rep> && is_whole) {
      constexpr auto unit = Period::num * (parts_of_second / Period::den);
      if (std::cmp_greater(length.count(), max_count / unit)) return max();
      if (std::cmp_less(length.count(), min_count / unit)) return min();
      return nanoseconds{static_cast<std::int64_t>(length.count()) * unit};
    } else {
      // Floating point is used because a product of integers could overflow before the division.
      const auto count =
          static_cast<long double>(length.count()) * Period::num * parts_of_second / Period::den;
      if (count >= static_cast<long double>(max_count)) return max();
      if (count > static_cast<long double>(min_count)) {
        return nanoseconds{static_cast<std::int64_t>(count)};
      }
      return count <= static_cast<long double>(min_count) ? min() : zero();  // a NaN becomes zero()
    }
  }
};

}  // namespace gyre

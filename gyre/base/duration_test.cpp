// SPDX-License-Identifier: Apache-2.0
//
// Tests of lengths of time as parameters.
#include <gyre/base/duration.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <ratio>
#include <type_traits>

namespace duration_test {
namespace {

using gyre::duration;
using namespace std::chrono_literals;
using std::chrono::nanoseconds;

template <class Rep, class Period>
using length = std::chrono::duration<Rep, Period>;

TEST(Duration, CountsNanosecondsOfEveryUnit) {
  static_assert(duration{3ns} == 3ns);
  static_assert(duration{3us} == 3000ns);
  static_assert(duration{-2h} == -7'200'000'000'000ns);
  static_assert(duration{length<std::uint8_t, std::milli>{255}} == 255ms);
  static_assert(duration{length<std::int64_t, std::pico>{-3999}} == -3ns);
  static_assert(duration{length<int, std::ratio<1, 3>>{2}} == 666'666'666ns);
  static_assert(duration{} == 0ns);
}

TEST(Duration, SaturatesUnitsThatDoNotFit) {
  static_assert(duration{std::chrono::microseconds::max()} == nanoseconds::max());
  static_assert(duration{std::chrono::milliseconds::max()} == nanoseconds::max());
  static_assert(duration{std::chrono::hours::max()} == nanoseconds::max());
  static_assert(duration{std::chrono::years{1000}} == nanoseconds::max());
  static_assert(duration{std::chrono::years{-1000}} == nanoseconds::min());
  static_assert(duration{std::chrono::hours::min()} == nanoseconds::min());
  static_assert(duration{length<std::uint64_t, std::nano>{~std::uint64_t{0}}} ==
                nanoseconds::max());
  static_assert(duration{length<std::uint64_t, std::exa>{~std::uint64_t{0}}} == nanoseconds::max());
  static_assert(duration{length<std::int64_t, std::ratio<1, 3>>::max()} == nanoseconds::max());
  static_assert(duration{length<std::int64_t, std::ratio<1, 3>>::min()} == nanoseconds::min());
}

TEST(Duration, IsExactNextToItsLimits) {
  static_assert(duration{9'223'372'036s} == 9'223'372'036'000'000'000ns);
  static_assert(duration{9'223'372'037s} == nanoseconds::max());
  static_assert(duration{-9'223'372'036s} == -9'223'372'036'000'000'000ns);
  static_assert(duration{-9'223'372'037s} == nanoseconds::min());
  static_assert(duration{nanoseconds::max()} == nanoseconds::max());
  static_assert(duration{nanoseconds::min()} == nanoseconds::min());
}

TEST(Duration, ConvertsFractionsAndSaturatesThem) {
  using seconds = length<double, std::ratio<1>>;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  static_assert(duration{seconds{1.5}} == 1500ms);
  static_assert(duration{seconds{-0.25}} == -250ms);
  static_assert(duration{seconds{1e-10}} == 0ns);
  static_assert(duration{seconds{infinity}} == nanoseconds::max());
  static_assert(duration{seconds{-infinity}} == nanoseconds::min());
  static_assert(duration{length<float, std::ratio<3600>>{1e30F}} == nanoseconds::max());
  EXPECT_EQ(duration{seconds{std::numeric_limits<double>::quiet_NaN()}}, 0ns);
}

TEST(Duration, TakesPartInTheArithmeticOfChrono) {
  constexpr duration two = 2s;
  static_assert(two + 1ms == 2001ms);
  static_assert(two * 2 == 4s);
  static_assert(two == duration{2000ms});
  static_assert(two < duration::max());
  static_assert(std::chrono::duration_cast<std::chrono::milliseconds>(two) == 2000ms);
  static_assert(std::is_convertible_v<duration, nanoseconds>);
  static_assert(!std::is_convertible_v<int, duration>);
  static_assert(!std::is_constructible_v<duration, int>);
}

TEST(Duration, IsAFieldOfOptions) {
  struct options {
    duration limit = 5s;
    std::optional<duration> idle = {};
  };
  const options chosen{.limit = std::chrono::hours::max(), .idle = std::chrono::minutes::max()};
  EXPECT_EQ(chosen.limit, nanoseconds::max());
  EXPECT_EQ(chosen.idle, duration::max());
  EXPECT_EQ(options{}.limit, 5s);
}

}  // namespace
}  // namespace duration_test

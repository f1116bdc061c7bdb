// SPDX-License-Identifier: Apache-2.0
//
// Tests of monotonic time.
#include <gyre/base/clock.hpp>

#include <gtest/gtest.h>

#include <time.h>

#include <chrono>
#include <type_traits>

namespace clock_test {
namespace {

using gyre::steady_time;

TEST(Clock, CountsNanosecondsAndNeverGoesBack) {
  static_assert(std::is_same_v<steady_time::duration, std::chrono::nanoseconds>);
  steady_time last = gyre::detail::monotonic_now();
  for (int i = 0; i < 10'000; ++i) {
    const steady_time now = gyre::detail::monotonic_now();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(Clock, IsTheSystemsMonotonicClock) {
  const auto of_system = [] {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return steady_time{std::chrono::seconds{now.tv_sec} + std::chrono::nanoseconds{now.tv_nsec}};
  };
  const steady_time before = of_system();
  const steady_time now = gyre::detail::monotonic_now();
  const steady_time after = of_system();
  EXPECT_LE(before, now);
  EXPECT_LE(now, after);
}

TEST(Clock, LaterEndsAtTheEndOfTime) {
  using namespace std::chrono_literals;
  using gyre::detail::later;
  constexpr auto longest = std::chrono::nanoseconds::max();
  EXPECT_EQ(later(steady_time{5s}, 2s), steady_time{7s});
  EXPECT_EQ(later(steady_time{-5s}, 2s), steady_time{-3s});
  EXPECT_EQ(later(steady_time{5s}, -2s), steady_time{5s});
  EXPECT_EQ(later(steady_time{5s}, longest), steady_time::max());
  EXPECT_EQ(later(steady_time::max(), 1ns), steady_time::max());
  EXPECT_EQ(later(steady_time{}, longest), steady_time::max());
  EXPECT_EQ(later(steady_time::min(), longest), steady_time{-1ns});
}

TEST(TimePoint, IsMadeOfEveryUnitAndSaturates) {
  using namespace std::chrono_literals;
  using gyre::time_point;
  using clock = std::chrono::steady_clock;
  constexpr steady_time five{5s};
  static_assert(time_point{five} == five);
  static_assert(time_point{std::chrono::time_point<clock, std::chrono::seconds>{5s}} == five);
  static_assert(time_point{std::chrono::time_point<clock, std::chrono::duration<double>>{5s}} ==
                five);
  static_assert(time_point{std::chrono::time_point<clock, std::chrono::hours>::max()} ==
                steady_time::max());
  static_assert(time_point{std::chrono::time_point<clock, std::chrono::hours>::min()} ==
                steady_time::min());
  static_assert(time_point{} == steady_time{});
  static_assert(time_point{five} - 2s == steady_time{3s});
  static_assert(std::is_convertible_v<time_point, steady_time>);
  static_assert(!std::is_convertible_v<std::chrono::system_clock::time_point, time_point>);
  static_assert(!std::is_convertible_v<std::chrono::seconds, time_point>);
  static_assert(sizeof(time_point) == sizeof(steady_time));
}

}  // namespace
}  // namespace clock_test

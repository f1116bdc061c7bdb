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

}  // namespace
}  // namespace clock_test

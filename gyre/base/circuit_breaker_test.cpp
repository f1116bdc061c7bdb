// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/circuit_breaker.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace circuit_breaker_test {
namespace {

using namespace std::chrono_literals;
using gyre::circuit_breaker;
using gyre::circuit_state;

class CircuitBreaker : public testing::Test {
 protected:
  bool succeed() { return end(true); }
  bool fail() { return end(false); }
  bool end(bool succeeds) {
    auto call = breaker.begin(now);
    if (!call) return false;
    succeeds ? call->succeed(now) : call->fail(now);
    return true;
  }
  void open() {
    for (int i = 0; i < 4; ++i) fail();
    ASSERT_EQ(breaker.state(), circuit_state::open);
  }

  circuit_breaker breaker{{.failure_rate = 0.5, .min_calls = 4, .window = 10s, .open_time = 5s}};
  gyre::steady_time now{1h};
};

TEST_F(CircuitBreaker, OpensWhenEnoughCallsHaveFailed) {
  fail();
  fail();
  fail();
  EXPECT_EQ(breaker.state(), circuit_state::closed);  // fewer than min_calls
  fail();
  EXPECT_EQ(breaker.state(), circuit_state::open);
  EXPECT_EQ(breaker.opened(), 1);
  EXPECT_FALSE(succeed());
  EXPECT_EQ(breaker.refused(), 1);
}

TEST_F(CircuitBreaker, StaysClosedBelowTheRate) {
  for (int i = 0; i < 100; ++i) {
    succeed();
    succeed();
    EXPECT_TRUE(fail());
  }
  EXPECT_EQ(breaker.state(), circuit_state::closed);
}

TEST_F(CircuitBreaker, ForgetsWhatIsOlderThanTheWindow) {
  for (int i = 0; i < 3; ++i) fail();
  now += 10s;
  fail();
  EXPECT_EQ(breaker.state(), circuit_state::closed);
  now += 9s;
  fail();
  fail();
  EXPECT_EQ(breaker.state(), circuit_state::closed);
  fail();
  EXPECT_EQ(breaker.state(), circuit_state::open);
}

TEST_F(CircuitBreaker, AllowsOneProbeAfterTheOpenTime) {
  open();
  now += 5s - 1ns;
  EXPECT_FALSE(breaker.begin(now));
  now += 1ns;
  auto probe = breaker.begin(now);
  ASSERT_TRUE(probe);
  EXPECT_EQ(breaker.state(), circuit_state::half_open);
  EXPECT_FALSE(breaker.begin(now));
  probe->succeed(now);
  EXPECT_EQ(breaker.state(), circuit_state::closed);
  EXPECT_TRUE(fail());  // the failures before count no more
  EXPECT_EQ(breaker.state(), circuit_state::closed);
}

TEST_F(CircuitBreaker, OpensAgainWhenTheProbeFails) {
  open();
  now += 5s;
  EXPECT_TRUE(fail());
  EXPECT_EQ(breaker.state(), circuit_state::open);
  EXPECT_EQ(breaker.opened(), 2);
  now += 4s;
  EXPECT_FALSE(succeed());
  now += 1s;
  EXPECT_TRUE(succeed());
  EXPECT_EQ(breaker.state(), circuit_state::closed);
}

TEST_F(CircuitBreaker, AnAbandonedProbeMakesRoomForAnother) {
  open();
  now += 5s;
  {
    const auto probe = breaker.begin(now);
    ASSERT_TRUE(probe);
  }
  EXPECT_EQ(breaker.state(), circuit_state::half_open);
  EXPECT_TRUE(succeed());
  EXPECT_EQ(breaker.state(), circuit_state::closed);
}

TEST_F(CircuitBreaker, CallsOfAnEarlierStateDoNotCount) {
  auto late_success = breaker.begin(now);
  auto late_failure = breaker.begin(now);
  auto late_stop = breaker.begin(now);
  open();
  now += 5s;
  auto probe = breaker.begin(now);
  ASSERT_TRUE(probe);
  late_success->succeed(now);
  late_failure->fail(now);
  late_stop.reset();
  EXPECT_EQ(breaker.state(), circuit_state::half_open);
  EXPECT_FALSE(breaker.begin(now));  // the probe still runs
  probe->fail(now);
  EXPECT_EQ(breaker.state(), circuit_state::open);
}

TEST_F(CircuitBreaker, OnlyTheFirstEndOfACallCounts) {
  for (int i = 0; i < 4; ++i) {
    auto call = breaker.begin(now);
    ASSERT_TRUE(call);
    call->succeed(now);
    call->fail(now);
    auto moved = std::move(*call);
    moved.fail(now);
  }
  EXPECT_EQ(breaker.state(), circuit_state::closed);
}

TEST_F(CircuitBreaker, IsUnusedWithoutCallsInTheWindow) {
  EXPECT_TRUE(breaker.is_unused(now));
  auto call = breaker.begin(now);
  EXPECT_FALSE(breaker.is_unused(now));
  call->succeed(now);
  EXPECT_FALSE(breaker.is_unused(now));
  now += 10s;
  EXPECT_TRUE(breaker.is_unused(now));
  open();
  now += 1h;
  EXPECT_FALSE(breaker.is_unused(now));
}

TEST_F(CircuitBreaker, RefusesOptionsOutOfRange) {
  const auto refuses = [](gyre::circuit_breaker_options options) {
    EXPECT_THROW(circuit_breaker{options}, std::invalid_argument);
  };
  refuses({.failure_rate = 0});
  refuses({.failure_rate = 1.1});
  refuses({.failure_rate = std::numeric_limits<double>::quiet_NaN()});
  refuses({.min_calls = 0});
  refuses({.window = 9ns});
  refuses({.open_time = 0s});
}

// The sum of a time and the longest window or open_time must not overflow.
TEST_F(CircuitBreaker, TakesTheLongestTimes) {
  circuit_breaker longest(
      {.min_calls = 1, .window = gyre::duration::max(), .open_time = gyre::duration::max()});
  longest.begin(now)->fail(now);
  EXPECT_EQ(longest.state(), circuit_state::open);
  EXPECT_FALSE(longest.begin(now + 24h));
}

}  // namespace
}  // namespace circuit_breaker_test

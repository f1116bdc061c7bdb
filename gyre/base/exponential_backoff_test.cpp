// SPDX-License-Identifier: Apache-2.0
// Tests of exponential backoff and of the random numbers for its jitter.
#include <gyre/base/exponential_backoff.hpp>

#include <gyre/base/detail/splitmix64.hpp>

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <type_traits>

namespace exponential_backoff_test {
namespace {

using namespace std::chrono_literals;
using gyre::exponential_backoff;
using gyre::detail::splitmix64;
using std::chrono::nanoseconds;

static_assert(std::is_trivially_copyable_v<exponential_backoff>);
static_assert(std::uniform_random_bit_generator<splitmix64>);

TEST(ExponentialBackoff, DoublesUpToTheLongest) {
  constexpr exponential_backoff backoff{.initial = 10ms, .longest = 70ms};
  static_assert(backoff.delay(1) == 10ms);
  const std::array expected{10ms, 20ms, 40ms, 70ms, 70ms};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(backoff.delay(i + 1), expected.at(i));
}

TEST(ExponentialBackoff, DoesNotOverflowHoweverOftenItDoubles) {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  for (const std::size_t number : {std::size_t{62}, std::size_t{63}, std::size_t{64}, most}) {
    EXPECT_EQ((exponential_backoff{.initial = 3ns, .longest = 1h}.delay(number)), 1h);
    EXPECT_GE((exponential_backoff{.initial = 1ns, .longest = nanoseconds::max()}.delay(number)),
              nanoseconds{std::int64_t{1} << 61});
  }
  EXPECT_EQ((exponential_backoff{.initial = 1ns, .longest = nanoseconds::max()}.delay(63)),
            nanoseconds{std::int64_t{1} << 62});
}

TEST(ExponentialBackoff, TheLongestLimitsTheFirstDelayToo) {
  EXPECT_EQ((exponential_backoff{.initial = 1s, .longest = 10ms}.delay(1)), 10ms);
}

TEST(ExponentialBackoff, WithoutADelayThereIsNone) {
  splitmix64 random(1);
  for (const nanoseconds none : {0ns, -1ns, nanoseconds::min()}) {
    const exponential_backoff backoff{.initial = none, .longest = 1s};
    EXPECT_EQ(backoff.delay(5), 0ns);
    EXPECT_EQ(backoff.jittered_delay(5, random), 0ns);
    EXPECT_EQ((exponential_backoff{.initial = 1s, .longest = none}.delay(5)), 0ns);
  }
}

TEST(ExponentialBackoff, JitterIsAnythingUpToTheDelay) {
  const exponential_backoff backoff{.initial = 1ns, .longest = 1s};
  std::mt19937_64 random(42);
  std::set<nanoseconds> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(backoff.jittered_delay(3, random));
  EXPECT_EQ(seen, (std::set<nanoseconds>{0ns, 1ns, 2ns, 3ns, 4ns}));
}

TEST(ExponentialBackoff, TheSameSeedGivesTheSameDelays) {
  const exponential_backoff backoff;
  splitmix64 one(7);
  splitmix64 same(7);
  splitmix64 other(8);
  bool differs = false;
  for (std::size_t retry = 1; retry < 20; ++retry) {
    const nanoseconds delay = backoff.jittered_delay(retry, one);
    EXPECT_EQ(delay, backoff.jittered_delay(retry, same));
    EXPECT_LE(delay, backoff.delay(retry));
    differs = differs || delay != backoff.jittered_delay(retry, other);
  }
  EXPECT_TRUE(differs);
}

// The reference implementation's first numbers.
TEST(Splitmix64, GivesTheNumbersOfItsAuthors) {
  splitmix64 random(1'234'567);
  EXPECT_EQ(random(), 6'457'827'717'110'365'317U);
  EXPECT_EQ(random(), 3'203'168'211'198'807'973U);
}

TEST(Splitmix64, SeedsDiffer) {
  EXPECT_NE(gyre::detail::random_seed(), gyre::detail::random_seed());
}

}  // namespace
}  // namespace exponential_backoff_test

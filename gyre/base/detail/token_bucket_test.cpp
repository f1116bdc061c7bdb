// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/token_bucket.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>

namespace token_bucket_test {
namespace {

using namespace std::chrono_literals;
using gyre::steady_time;
using gyre::detail::token_bucket;
using gyre::detail::token_rate;

constexpr steady_time start{1h};

int taken_at_once(token_bucket& bucket, steady_time time) {
  int count = 0;
  while (count < 10'000 && bucket.take(time)) ++count;
  return count;
}

TEST(TokenBucket, RefillsEvenlyUpToTheBurst) {
  token_bucket bucket(10, 100);
  EXPECT_EQ(taken_at_once(bucket, start), 10);
  EXPECT_EQ(taken_at_once(bucket, start + 9ms), 0);
  EXPECT_EQ(taken_at_once(bucket, start + 10ms), 1);
  EXPECT_EQ(taken_at_once(bucket, start + 65ms), 5);
  EXPECT_EQ(taken_at_once(bucket, start + 70ms), 1);
  EXPECT_EQ(taken_at_once(bucket, start + 24h), 10);
  EXPECT_EQ(taken_at_once(bucket, start), 0) << "an earlier time gives nothing";
}

TEST(TokenBucket, TakesTokensBack) {
  token_bucket bucket(10, 1);
  EXPECT_EQ(taken_at_once(bucket, start), 10);
  bucket.give(3);
  EXPECT_EQ(taken_at_once(bucket, start), 3);
  bucket.give(1000);
  EXPECT_EQ(taken_at_once(bucket, start), 10);
  bucket.give(std::numeric_limits<std::uint32_t>::max());
  bucket.give(std::numeric_limits<std::uint32_t>::max());
  EXPECT_EQ(taken_at_once(bucket, start + 1s), 10);
}

TEST(TokenBucket, TakesTheLargestAndTheSmallestRates) {
  constexpr std::uint32_t max = std::numeric_limits<std::uint32_t>::max();
  token_bucket nothing(0, max);
  EXPECT_FALSE(nothing.take(start + 24h));
  token_bucket fast(max, max);
  EXPECT_EQ(taken_at_once(fast, start), 10'000);
  token_bucket slow(max, 0);
  EXPECT_EQ(taken_at_once(slow, start), 10'000);
}

TEST(TokenRate, TellsTheTimeUntilThereAreEnough) {
  constexpr token_rate rate(100, 1000);
  std::int64_t full_at = 0;
  EXPECT_EQ(rate.tokens(full_at, 5000), 10u);
  EXPECT_EQ(rate.take(full_at, 5000, 7), 0);
  EXPECT_EQ(rate.tokens(full_at, 5000), 3u);
  EXPECT_EQ(rate.take(full_at, 5000, 5), 200);
  EXPECT_EQ(rate.tokens(full_at, 5199), 4u);
  EXPECT_EQ(rate.take(full_at, 5200, 5), 0);
  EXPECT_EQ(rate.tokens(full_at, 5200), 0u);
}

}  // namespace
}  // namespace token_bucket_test

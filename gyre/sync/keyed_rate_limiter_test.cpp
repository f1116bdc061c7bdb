// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/keyed_rate_limiter.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace keyed_rate_limiter_test {
namespace {

using namespace std::chrono_literals;
using gyre::keyed_rate_limiter;
using gyre::steady_time;

constexpr steady_time start{1h};

TEST(KeyedRateLimiter, EachKeyHasABucketOfItsOwn) {
  keyed_rate_limiter limiter({.tokens = 2, .per = 1s, .burst = 3});
  for (const std::uint64_t remaining : {2U, 1U, 0U}) {
    const auto decision = limiter.try_acquire("a", start);
    EXPECT_TRUE(decision.is_allowed);
    EXPECT_EQ(decision.remaining, remaining);
    EXPECT_EQ(decision.retry_after, 0s);
  }
  const auto refused = limiter.try_acquire("a", start);
  EXPECT_FALSE(refused.is_allowed);
  EXPECT_EQ(refused.remaining, 0);
  EXPECT_EQ(refused.retry_after, 500ms);
  EXPECT_TRUE(limiter.try_acquire("b", start).is_allowed);
  EXPECT_FALSE(limiter.try_acquire("a", start + 499ms).is_allowed);
  EXPECT_TRUE(limiter.try_acquire("a", start + 500ms).is_allowed);
  EXPECT_EQ(limiter.metrics().allowed, 5);
  EXPECT_EQ(limiter.metrics().refused, 2);
}

TEST(KeyedRateLimiter, TakesSeveralTokensOrNone) {
  keyed_rate_limiter limiter({.tokens = 1, .per = 1s, .burst = 10});
  EXPECT_EQ(limiter.try_acquire("a", start, 7).remaining, 3);
  const auto refused = limiter.try_acquire("a", start, 5);
  EXPECT_FALSE(refused.is_allowed);
  EXPECT_EQ(refused.remaining, 3);
  EXPECT_EQ(refused.retry_after, 2s);
  EXPECT_TRUE(limiter.try_acquire("a", start, 3).is_allowed);
  EXPECT_EQ(limiter.try_acquire("b", start, 11).retry_after, gyre::duration::max());
  EXPECT_EQ(limiter.try_acquire("b", start, std::uint64_t(-1)).retry_after, gyre::duration::max());
  EXPECT_TRUE(limiter.try_acquire("b", start, 0).is_allowed);
}

TEST(KeyedRateLimiter, ATimeThatIsEarlierGivesNothing) {
  keyed_rate_limiter limiter({.tokens = 1, .per = 1s, .burst = 1});
  EXPECT_TRUE(limiter.try_acquire("a", start).is_allowed);
  EXPECT_EQ(limiter.try_acquire("a", start - 1min).retry_after, 1min + 1s);
  EXPECT_TRUE(limiter.try_acquire("b", steady_time::min()).is_allowed);
}

// The reference gives each key a bucket, and has no bound.
TEST(KeyedRateLimiter, DecidesAsUnboundedBucketsDoWhileTheKeysFit) {
  keyed_rate_limiter limiter({.tokens = 10, .per = 1s, .burst = 4, .capacity = 1 << 14});
  std::unordered_map<std::string, std::int64_t> full_at;
  std::mt19937_64 random(7);
  steady_time now = start;
  for (int i = 0; i < 50'000; ++i) {
    now += std::chrono::microseconds(random() % 3000);
    const std::string key = std::to_string(random() % 40);
    const auto tokens = static_cast<std::int64_t>(random() % 4);
    std::int64_t& full = full_at[key];
    const std::int64_t time = now.time_since_epoch().count();
    const std::int64_t next = std::max(full, time) + tokens * 100'000'000;
    const bool is_allowed = next - time <= 400'000'000;
    if (is_allowed) full = next;
    ASSERT_EQ(limiter.try_acquire(key, now, static_cast<std::uint64_t>(tokens)).is_allowed,
              is_allowed);
  }
  EXPECT_GT(limiter.metrics().refused, 0);
  EXPECT_EQ(limiter.metrics().forgotten, 0);
}

TEST(KeyedRateLimiter, AFloodOfKeysRefusesNoHonestUserAndFreesNoBusyOne) {
  keyed_rate_limiter limiter({.tokens = 1, .per = 1s, .burst = 10, .capacity = 1});
  ASSERT_EQ(limiter.capacity(), 512);
  EXPECT_TRUE(limiter.try_acquire("busy", start, 10).is_allowed);
  for (int i = 0; i < 100'000; ++i) {
    limiter.try_acquire("flood " + std::to_string(i), start);
    if (i % 1000 == 0) {
      EXPECT_TRUE(limiter.try_acquire("honest", start + std::chrono::milliseconds(i)).is_allowed);
    }
  }
  EXPECT_FALSE(limiter.try_acquire("busy", start).is_allowed);
  EXPECT_GT(limiter.metrics().forgotten, 0);
}

TEST(KeyedRateLimiter, FullBucketsMakeRoomWithoutLoss) {
  keyed_rate_limiter limiter({.tokens = 1, .per = 1s, .burst = 1, .capacity = 512});
  for (int i = 0; i < 10'000; ++i) {
    limiter.try_acquire(std::to_string(i), start + std::chrono::seconds(i));
  }
  EXPECT_EQ(limiter.metrics().forgotten, 0);
}

TEST(KeyedRateLimiter, RefusesOptionsOutOfRange) {
  const auto refuses = [](gyre::keyed_rate_limiter_options options) {
    EXPECT_THROW(keyed_rate_limiter{options}, std::invalid_argument);
  };
  refuses({.tokens = 0});
  refuses({.burst = 0});
  refuses({.per = 0s});
  refuses({.capacity = 0});
  refuses({.capacity = std::size_t(-1)});
  refuses({.tokens = 2, .per = 1ns});
  refuses({.per = gyre::duration::max()});
  refuses({.burst = std::uint64_t(-1)});
}

TEST(KeyedRateLimiter, ThreadsShareTheBuckets) {
  keyed_rate_limiter limiter({.tokens = 1, .per = 1h, .burst = 1000, .capacity = 4096});
  std::atomic<std::uint64_t> allowed = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 2000; ++i) {
          for (const char* key : {"a", "b"}) {
            if (limiter.try_acquire(key, start).is_allowed) ++allowed;
          }
          if (i % 100 == 0) static_cast<void>(limiter.metrics());
        }
      });
    }
  }
  EXPECT_EQ(allowed, 2000);
  EXPECT_EQ(limiter.metrics().refused, 14'000);
}

}  // namespace
}  // namespace keyed_rate_limiter_test

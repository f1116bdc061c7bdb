// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/inbox/detail/throttle.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <thread>

namespace throttle_test {
namespace {

using gyre::inbox::detail::throttle;

constexpr std::size_t high_water = 1000;

TEST(InboxThrottle, LooksOnceWhileLittleWaits) {
  int looks = 0;
  throttle(high_water).slow_down([&] {
    ++looks;
    return high_water;
  });
  EXPECT_EQ(looks, 1);
}

TEST(InboxThrottle, LetsTheProducerGoWhenTheConsumerHasCaughtUp) {
  int looks = 0;
  throttle(high_water).slow_down([&] {
    return high_water + 3 - static_cast<std::size_t>(looks++);
  });
  EXPECT_EQ(looks, 4);
}

TEST(InboxThrottle, LetsTheProducerGoIfTheConsumerNeverCatchesUp) {
  int looks = 0;
  throttle(high_water).slow_down([&] {
    ++looks;
    return high_water + 1;
  });
  EXPECT_EQ(looks, throttle::max_yields);
}

TEST(InboxThrottle, DoesNotSlowDownTheConsumerItself) {
  throttle slowed(high_water);
  slowed.register_consumer();
  int looks = 0;
  const auto far_too_much = [&] {
    ++looks;
    return 10 * high_water;
  };
  slowed.slow_down(far_too_much);
  EXPECT_EQ(looks, 0);
  std::jthread([&] { slowed.slow_down(far_too_much); }).join();
  EXPECT_EQ(looks, throttle::max_yields);
}

TEST(InboxThrottle, GivesWayToTheConsumer) {
  std::atomic<std::size_t> backlog{high_water + 1};
  std::jthread consumer([&] { backlog = 0; });
  while (backlog.load() > high_water) {
    throttle(high_water).slow_down([&] { return backlog.load(); });
  }
  EXPECT_EQ(backlog, 0U);
}

}  // namespace
}  // namespace throttle_test

// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/inbox/detail/throttle.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <thread>

namespace {

using gyre::inbox::detail::throttle;

TEST(InboxThrottle, LooksOnceWhileLittleWaits) {
  int looks = 0;
  throttle().slow_down([&] {
    ++looks;
    return throttle::high_water;
  });
  EXPECT_EQ(looks, 1);
}

TEST(InboxThrottle, LetsTheProducerGoWhenTheConsumerHasCaughtUp) {
  int looks = 0;
  throttle().slow_down(
      [&] { return throttle::high_water + 3 - static_cast<std::size_t>(looks++); });
  EXPECT_EQ(looks, 4);
}

TEST(InboxThrottle, LetsTheProducerGoIfTheConsumerNeverCatchesUp) {
  int looks = 0;
  throttle().slow_down([&] {
    ++looks;
    return throttle::high_water + 1;
  });
  EXPECT_EQ(looks, throttle::most_yields);
}

TEST(InboxThrottle, GivesWayToTheConsumer) {
  std::atomic<std::size_t> backlog{throttle::high_water + 1};
  std::jthread consumer([&] { backlog = 0; });
  while (backlog.load() > throttle::high_water) {
    throttle().slow_down([&] { return backlog.load(); });
  }
  EXPECT_EQ(backlog, 0U);
}

}  // namespace

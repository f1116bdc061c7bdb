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

// Registers a thread that is not the test's.
void register_another_consumer(throttle& slowed) {
  std::jthread([&] { slowed.register_consumer(); }).join();
}

// How often a producer has looked at `backlog` tasks before it was let go.
int looks_at(throttle& slowed, std::size_t backlog) {
  int looks = 0;
  slowed.slow_down([&] {
    ++looks;
    return backlog;
  });
  return looks;
}

TEST(InboxThrottle, LooksOnceWhileLittleWaits) {
  throttle slowed(high_water);
  register_another_consumer(slowed);
  EXPECT_EQ(looks_at(slowed, high_water), 1);
}

TEST(InboxThrottle, DoesNotPutAProducerToSleepIfTheConsumerCatchesUpMeanwhile) {
  throttle slowed(high_water);
  register_another_consumer(slowed);
  int looks = 0;
  slowed.slow_down([&] { return high_water + 1 - static_cast<std::size_t>(looks++); });
  EXPECT_EQ(looks, 2);
  EXPECT_EQ(looks_at(slowed, high_water + 1), 2) << "the consumer counts as one that catches up";
}

TEST(InboxThrottle, LetsAProducerGoIfTheConsumerNeverCatchesUp) {
  throttle slowed(high_water);
  register_another_consumer(slowed);
  EXPECT_EQ(looks_at(slowed, high_water + 1), 2) << "before it slept, for max_sleep at most";
  EXPECT_EQ(looks_at(slowed, high_water + 1), 0) << "no sleep for a consumer that does not come";
  register_another_consumer(slowed);
  EXPECT_EQ(looks_at(slowed, high_water + 1), 2) << "it has begun another batch";
}

TEST(InboxThrottle, DoesNotSlowDownAProducerBeforeTheFirstBatch) {
  throttle slowed(high_water);
  EXPECT_EQ(looks_at(slowed, 10 * high_water), 0);
}

TEST(InboxThrottle, DoesNotSlowDownTheConsumerItself) {
  throttle slowed(high_water);
  slowed.register_consumer();
  EXPECT_EQ(looks_at(slowed, 10 * high_water), 0);
  std::jthread([&] { EXPECT_EQ(looks_at(slowed, 10 * high_water), 2); }).join();
}

TEST(InboxThrottle, WakesProducersWhenHalfAsManyTasksWait) {
  throttle slowed(high_water);
  slowed.register_consumer();
  std::atomic<std::size_t> backlog{high_water + 1};
  std::atomic<int> let_go = 0;
  const auto waiting = [&] { return backlog.load(); };
  std::jthread one([&] {
    while (backlog.load() > high_water) slowed.slow_down(waiting);
    ++let_go;
  });
  std::jthread other([&] {
    while (backlog.load() > high_water) slowed.slow_down(waiting);
    ++let_go;
  });
  for (std::size_t left = high_water; left > high_water / 2; --left) {
    slowed.register_consumer();
    backlog = left;
    slowed.wake_producers(waiting);
  }
  backlog = high_water / 2;
  while (let_go < 2) slowed.wake_producers(waiting);
}

TEST(InboxThrottle, LooksAtNoBacklogWhileNoProducerSleeps) {
  throttle slowed(high_water);
  int looks = 0;
  slowed.wake_producers([&] {
    ++looks;
    return std::size_t{0};
  });
  EXPECT_EQ(looks, 0);
}

}  // namespace
}  // namespace throttle_test

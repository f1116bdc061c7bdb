// SPDX-License-Identifier: Apache-2.0
// Tests of the capacity of a pool. Its model test shows that no interleaving forgets a blocked
// thread.
#include <gyre/pool/detail/capacity.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

namespace capacity_test {
namespace {

using namespace std::chrono_literals;
using gyre::steady_time;
using gyre::detail::admission_result;
using gyre::detail::capacity;

constexpr steady_time for_ever = steady_time::max();
constexpr steady_time long_ago{};

TEST(Capacity, TakesAllSlotsOrNone) {
  capacity room(10);
  EXPECT_EQ(room.limit(), 10U);
  EXPECT_EQ(room.free(), 10U);
  EXPECT_TRUE(room.try_acquire(7));
  EXPECT_FALSE(room.try_acquire(4));
  EXPECT_EQ(room.free(), 3U) << "a refused request takes none";
  EXPECT_TRUE(room.try_acquire(3));
  EXPECT_FALSE(room.try_acquire(1));
  room.release(10);
  EXPECT_TRUE(room.try_acquire(10));
}

TEST(Capacity, TakesAsManySlotsAsAreFree) {
  capacity room(10);
  EXPECT_EQ(room.try_acquire_some(7), 7U);
  EXPECT_EQ(room.try_acquire_some(7), 3U);
  EXPECT_EQ(room.try_acquire_some(7), 0U);
  EXPECT_EQ(room.free(), 0U);
}

TEST(Capacity, ChunksLeaveSmallLimitsExact) {
  EXPECT_EQ(capacity(1).chunk(), 1U);
  EXPECT_EQ(capacity(511).chunk(), 1U);
  EXPECT_EQ(capacity(512).chunk(), 2U);
  EXPECT_EQ(capacity(4096).chunk(), 16U);
  EXPECT_EQ(capacity(1 << 16).chunk(), 64U);
  EXPECT_EQ(capacity(1 << 20).chunk(), 64U);
}

TEST(Capacity, HasNoSmallUpperBound) {
  capacity room(std::numeric_limits<std::size_t>::max());
  EXPECT_GE(room.limit(), std::size_t{1} << 39);
  EXPECT_EQ(room.free(), room.limit());
  EXPECT_TRUE(room.try_acquire(room.limit()));
  room.release(room.limit());
  EXPECT_EQ(room.free(), room.limit());
}

constexpr auto nothing_to_reclaim = [] {};

class CapacityQueue : public testing::TestWithParam<std::size_t> {};

TEST_P(CapacityQueue, WaitsEndAtTheDeadline) {
  capacity room(GetParam());
  ASSERT_TRUE(room.try_acquire(GetParam()));
  EXPECT_EQ(room.wait_until(long_ago, 1, nothing_to_reclaim).result, admission_result::timed_out);
  const steady_time deadline = gyre::detail::monotonic_now() + 10ms;
  EXPECT_EQ(room.wait_until(deadline, 1, nothing_to_reclaim).result, admission_result::timed_out);
  EXPECT_GE(gyre::detail::monotonic_now(), deadline);
  room.release(1);
  EXPECT_TRUE(room.try_acquire(1)) << "the queue is empty";
}

TEST(Capacity, GrantsAFreeSlotAfterTheDeadlineOrTheEnd) {
  capacity room(2);
  EXPECT_EQ(room.wait_until(long_ago, 1, nothing_to_reclaim).result, admission_result::granted);
  room.close();
  EXPECT_EQ(room.wait_until(for_ever, 1, nothing_to_reclaim).result, admission_result::granted);
  EXPECT_EQ(room.wait_until(for_ever, 1, nothing_to_reclaim).result, admission_result::closed);
}

TEST(Capacity, ClosingEndsAllWaits) {
  capacity room(1);
  ASSERT_TRUE(room.try_acquire(1));
  std::atomic<int> looks{0};
  {
    std::vector<std::jthread> waiting;
    for (int i = 0; i < 4; ++i) {
      waiting.emplace_back([&] {
        bool first = true;
        const auto look = [&] { looks += std::exchange(first, false) ? 1 : 0; };
        EXPECT_EQ(room.wait_until(for_ever, 1, look).result, admission_result::closed);
      });
    }
    while (looks < 4) std::this_thread::yield();
    room.close();
  }
  EXPECT_EQ(room.free(), 0U);
}

// No other thread releases the slot, as if a thread that has ended held it.
TEST(Capacity, AWaitingThreadReclaimsByItself) {
  capacity room(1);
  ASSERT_TRUE(room.try_acquire(1));
  int looks = 0;
  const auto look = [&] {
    if (++looks == 4) room.release(1);
  };
  EXPECT_EQ(room.wait_until(for_ever, 1, look).result, admission_result::granted);
  EXPECT_EQ(looks, 4);
}

// Queues like a coroutine, and records when it was served.
struct noted_waiter : gyre::detail::slot_waiter {
  explicit noted_waiter(std::vector<noted_waiter*>& noting)
      : slot_waiter([](slot_waiter& self) noexcept {
          auto& served = static_cast<noted_waiter&>(self);
          served.served_.push_back(&served);
        }),
        served_(noting) {}
  std::vector<noted_waiter*>& served_;
};

// Each released slot goes to the queue, so that no later request overtakes.
TEST_P(CapacityQueue, IsServedInOrderBeforeOtherRequests) {
  capacity room(GetParam());
  ASSERT_TRUE(room.try_acquire(GetParam()));
  std::vector<noted_waiter*> served;
  noted_waiter one(served);
  noted_waiter other(served);
  noted_waiter last(served);
  for (noted_waiter* const each : {&one, &other, &last}) {
    EXPECT_EQ(room.enqueue(*each), capacity::enqueue_result::waits);
    EXPECT_TRUE(room.is_urgent());
  }
  for (const std::size_t count : {1U, 2U, 3U}) {
    EXPECT_EQ(room.try_acquire_some(1), 0U);
    room.release(1);
    EXPECT_EQ(served.size(), count);
    EXPECT_FALSE(room.try_acquire(1)) << "the slot went to the queue";
  }
  EXPECT_EQ(served, (std::vector{&one, &other, &last}));
  EXPECT_EQ(last.granted(), 1U);
  EXPECT_FALSE(room.is_urgent());
  room.release(1);
  EXPECT_TRUE(room.try_acquire(1)) << "the queue is empty";
}

TEST_P(CapacityQueue, SkipsCancelledWaiters) {
  capacity room(GetParam());
  ASSERT_TRUE(room.try_acquire(GetParam()));
  std::vector<noted_waiter*> served;
  noted_waiter one(served);
  noted_waiter other(served);
  noted_waiter never(served);
  EXPECT_FALSE(room.cancel(never)) << "it is not in the queue";
  EXPECT_EQ(room.enqueue(never), capacity::enqueue_result::cancelled);
  EXPECT_EQ(room.enqueue(one), capacity::enqueue_result::waits);
  EXPECT_EQ(room.enqueue(other), capacity::enqueue_result::waits);
  EXPECT_TRUE(room.cancel(one));
  EXPECT_TRUE(one.is_cancelled());
  room.release(1);
  EXPECT_EQ(served, std::vector{&other});
  EXPECT_FALSE(room.cancel(other)) << "it was served before";
}

// A waiting thread is served although another thread takes every slot that it can get.
TEST_P(CapacityQueue, ServesAThreadBeforeOtherRequests) {
  capacity room(GetParam());
  ASSERT_TRUE(room.try_acquire(GetParam()));
  for (int round = 0; round < 20; ++round) {
    std::jthread waiting([&] {
      EXPECT_EQ(room.wait_until(for_ever, 1, nothing_to_reclaim).result, admission_result::granted);
    });
    // try_acquire() fails once the thread is in the queue.
    do {
      room.release(1);
    } while (room.try_acquire(1));
    waiting.join();
    EXPECT_EQ(room.free(), 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(NarrowAndWide, CapacityQueue, testing::Values(3, capacity::wide));

class CapacityUnderLoad : public testing::TestWithParam<std::size_t> {};

TEST_P(CapacityUnderLoad, NeverExceedsTheLimitAndForgetsNoWaiter) {
  capacity room(GetParam());
  constexpr int visits = 2000;
  std::atomic<std::size_t> inside{0};
  std::atomic<std::size_t> most{0};
  {
    std::vector<std::jthread> visitors;
    for (int i = 0; i < 4; ++i) {
      visitors.emplace_back([&] {
        for (int visit = 0; visit < visits; ++visit) {
          const auto [result, taken] =
              room.wait_until(for_ever, GetParam() / 2 + 1, nothing_to_reclaim);
          ASSERT_EQ(result, admission_result::granted);
          const std::size_t now = inside += taken;
          std::size_t seen = most;
          while (seen < now && !most.compare_exchange_weak(seen, now)) {
          }
          inside -= taken;
          room.release(taken);
        }
      });
    }
  }
  EXPECT_EQ(inside, 0U);
  EXPECT_LE(most, GetParam());
  EXPECT_EQ(room.free(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(NarrowAndWide, CapacityUnderLoad, testing::Values(1, 3, capacity::wide));

}  // namespace
}  // namespace capacity_test

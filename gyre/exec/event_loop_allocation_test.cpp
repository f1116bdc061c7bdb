// SPDX-License-Identifier: Apache-2.0
// Tests that posting and timers allocate nothing once they have warmed up: every allocation of this
// program is counted.
#include <gyre/exec/loop.hpp>

#include <gyre/base/slab.hpp>
#include <gyre/exec/inbox/sharded.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/sync/rate_limiter.hpp>
#include <gyre/task/interval.hpp>
#include <gyre/task/task.hpp>
#include <gyre/testing/allocations.hpp>
#include <gyre/testing/virtual_time_loop.hpp>

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

namespace event_loop_allocation_test {
namespace {

using gyre::testing::allocations;
using namespace std::chrono_literals;
using gyre::testing::virtual_time_loop;

// The number of allocations of `action` after a few repetitions.
template <class Action>
std::size_t allocations_of(Action&& action) {
  for (int warm_up = 0; warm_up < 3; ++warm_up) action();
  const std::size_t before = allocations();
  action();
  return allocations() - before;
}

template <class Inbox>
class EventLoopAllocation : public testing::Test {
 protected:
  // Each action posts thousands of tasks, so that the inbox goes from segment to segment.
  template <class Post>
  std::size_t allocations_of_posts(Post&& post) {
    return allocations_of([&] {
      for (int i = 0; i < 5000; ++i) post();
      while (loop_.poll()) continue;
    });
  }
  virtual_time_loop<gyre::basic_loop<Inbox>> virtual_time_;
  gyre::basic_loop<Inbox>& loop_ = virtual_time_.loop;
  std::size_t runs_ = 0;
};

using inboxes = testing::Types<gyre::inbox::fifo, gyre::inbox::sharded>;
TYPED_TEST_SUITE(EventLoopAllocation, inboxes);

TYPED_TEST(EventLoopAllocation, ASmallCallableIsPostedWithoutOne) {
  EXPECT_EQ(this->allocations_of_posts([&] { this->loop_.post([this] { ++this->runs_; }); }), 0u);
  EXPECT_EQ(this->runs_, 20'000u);
}

TYPED_TEST(EventLoopAllocation, ALargeCallableComesFromTheSlab) {
  std::array<char, 200> large{};
  EXPECT_EQ(this->allocations_of_posts([&] {
    this->loop_.post([this, large] { this->runs_ += static_cast<std::size_t>(large[0] + 1); });
  }),
            0u);
  EXPECT_EQ(this->runs_, 20'000u);
}

TYPED_TEST(EventLoopAllocation, PostingThroughTheBaseNeedsNone) {
  gyre::event_loop& base = this->loop_;
  EXPECT_EQ(this->allocations_of_posts([&] { base.post([this] { ++this->runs_; }); }), 0u);
}

TYPED_TEST(EventLoopAllocation, CallablesOfUpTo120BytesNeedNoBlockOfTheSlab) {
  const auto expect_in_place = [this](auto& loop) {
    const std::function<void()> function([this] { ++this->runs_; });
    const std::array<std::size_t, 14> words{1};
    const auto large = [this, words] { this->runs_ += words[0]; };
    static_assert(sizeof(large) == 120);
    const std::size_t before = gyre::read_slab_stats().blocks_in_use;
    for (int i = 0; i < 100; ++i) {
      loop.post([this, words = std::array<std::size_t, 2>{1}] { this->runs_ += words[0]; });
      loop.post(function);
      loop.post(std::function<void()>(function));
      loop.post(large);
      EXPECT_TRUE(loop.try_post(large));
    }
    EXPECT_EQ(gyre::read_slab_stats().blocks_in_use, before);
    while (this->loop_.poll()) continue;
    EXPECT_EQ(allocations_of([&] {
                for (int i = 0; i < 1000; ++i) loop.post(large);
                while (this->loop_.poll()) continue;
              }),
              0u);
  };
  expect_in_place(this->loop_);
  expect_in_place(static_cast<gyre::event_loop&>(this->loop_));
  EXPECT_EQ(this->runs_, 2 * (500u + 4 * 1000u));
}

TYPED_TEST(EventLoopAllocation, OperationsNeedNone) {
  struct counting : gyre::operation {
    counting() : operation([](operation& self) { ++static_cast<counting&>(self).runs; }) {}
    int runs = 0;
  };
  std::vector<counting> operations(5000);
  std::size_t next = 0;
  EXPECT_EQ(this->allocations_of_posts([&] { this->loop_.post(operations[next++ % 5000]); }), 0u);
  EXPECT_EQ(operations[4999].runs, 4);
}

TEST(TimerAllocation, StartingFiringAndCancellingNeedNone) {
  virtual_time_loop<> virtual_time;
  int fired = 0;
  gyre::timer once(virtual_time.loop, [&] { ++fired; });
  gyre::timer periodic(virtual_time.loop, [&] { ++fired; });
  gyre::timer cancelled(virtual_time.loop, [&] { ++fired; });
  EXPECT_EQ(allocations_of([&] {
              once.start_after(1ms);
              periodic.start_every(1ms);
              cancelled.start_after(1ms);
              cancelled.cancel();
              virtual_time.loop.run_for(5ms);
              periodic.cancel();
            }),
            0u);
  EXPECT_GE(fired, 4 * 5);
}

TEST(TimerAllocation, TicksAndTokensNeedNone) {
  virtual_time_loop<> virtual_time;
  const auto waits = []() -> gyre::task<std::size_t> {
    gyre::interval every(1ms);
    gyre::rate_limiter limit({.tokens = 700, .per = 1s});
    std::size_t before = 0;
    for (int i = 0; i < 100; ++i) {
      if (i == 3) before = allocations();
      co_await every.tick();
      co_await limit.acquire();
    }
    co_return allocations() - before;
  };
  EXPECT_EQ(gyre::sync_wait(virtual_time.loop, waits()), 0u);
}

}  // namespace
}  // namespace event_loop_allocation_test

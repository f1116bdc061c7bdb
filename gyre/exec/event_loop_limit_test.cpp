// SPDX-License-Identifier: Apache-2.0
// Tests of the bounded inbox: try_post() against loop_options::inbox_limit.
#include <gyre/exec/loop.hpp>

#include <gyre/exec/inbox/mutex.hpp>
#include <gyre/exec/inbox/sharded.hpp>
#include <gyre/testing/virtual_time_loop.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <latch>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace event_loop_limit_test {
namespace {

using gyre::event_loop;
using gyre::testing::virtual_time_loop;

template <class Inbox>
class EventLoopLimit : public testing::Test {
 protected:
  using loop_type = gyre::basic_loop<Inbox>;
  using bounded_loop = virtual_time_loop<loop_type>;
};

using inboxes = testing::Types<gyre::inbox::fifo, gyre::inbox::sharded, gyre::inbox::mutex>;
TYPED_TEST_SUITE(EventLoopLimit, inboxes);

TYPED_TEST(EventLoopLimit, TryPostRefusesExactlyAtTheLimit) {
  typename TestFixture::bounded_loop bounded({.inbox_limit = 3});
  int runs = 0;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(bounded.loop.try_post([&] { ++runs; }));
  EXPECT_FALSE(bounded.loop.try_post([&] { ++runs; }));
  EXPECT_FALSE(static_cast<event_loop&>(bounded.loop).try_post([&] { ++runs; }));
  EXPECT_EQ(bounded.loop.metrics().tasks_refused, 2u);
  EXPECT_EQ(bounded.loop.metrics().tasks_pending, 3u);
  bounded.loop.poll();
  EXPECT_EQ(runs, 3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(bounded.loop.try_post([&] { ++runs; }));
  EXPECT_FALSE(bounded.loop.try_post([&] { ++runs; }));
}

TYPED_TEST(EventLoopLimit, WithoutALimitNothingIsRefused) {
  typename TestFixture::bounded_loop unbounded;
  for (int i = 0; i < 10'000; ++i) ASSERT_TRUE(unbounded.loop.try_post([] {}));
  EXPECT_EQ(unbounded.loop.metrics().tasks_refused, 0u);
}

TYPED_TEST(EventLoopLimit, ALimitOfZeroRefusesAll) {
  typename TestFixture::bounded_loop closed({.inbox_limit = 0});
  EXPECT_FALSE(closed.loop.try_post([] {}));
  EXPECT_FALSE(closed.loop.poll());
}

TYPED_TEST(EventLoopLimit, ARefusedCallableIsNotMovedFrom) {
  typename TestFixture::bounded_loop bounded({.inbox_limit = 1});
  EXPECT_TRUE(bounded.loop.try_post([] {}));
  int seen = 0;
  auto task = [&seen, owned = std::make_unique<int>(7)] { seen = *owned; };
  EXPECT_FALSE(bounded.loop.try_post(std::move(task)));
  EXPECT_FALSE(static_cast<event_loop&>(bounded.loop).try_post(std::move(task)));
  bounded.loop.poll();
  ASSERT_TRUE(bounded.loop.try_post(std::move(task)));
  bounded.loop.poll();
  EXPECT_EQ(seen, 7);
}

TYPED_TEST(EventLoopLimit, PostIsNeverRefusedButCounts) {
  typename TestFixture::bounded_loop bounded({.inbox_limit = 2});
  struct idle : gyre::operation {
    idle() : operation([](operation&) {}) {}
  } op;
  bounded.loop.post(op);
  bounded.loop.post([] {});
  bounded.loop.post([] {});
  EXPECT_FALSE(bounded.loop.try_post([] {}));
  EXPECT_EQ(bounded.loop.metrics().tasks_pending, 3u);
  bounded.loop.poll();
  EXPECT_TRUE(bounded.loop.try_post([] {}));
}

TYPED_TEST(EventLoopLimit, ATaskMayPostItsSuccessorAtALimitOfOne) {
  typename TestFixture::bounded_loop bounded({.inbox_limit = 1});
  struct chain {
    typename TestFixture::loop_type& loop;
    int left;
    void step() {
      if (--left == 0) return;
      EXPECT_TRUE(loop.try_post([this] { step(); }));
    }
  } chain{bounded.loop, 1000};
  EXPECT_TRUE(bounded.loop.try_post([&] { chain.step(); }));
  while (bounded.loop.poll()) continue;
  EXPECT_EQ(chain.left, 0);
  EXPECT_EQ(bounded.loop.metrics().tasks_run, 1000u);
}

TYPED_TEST(EventLoopLimit, ManyThreadsPostExactlyTheLimit) {
  constexpr std::size_t limit = 500;
  typename TestFixture::bounded_loop bounded({.inbox_limit = limit});
  std::atomic<std::size_t> admitted = 0;
  std::size_t ran = 0;
  {
    std::latch start(4);
    std::vector<std::jthread> producers;
    for (int i = 0; i < 4; ++i) {
      producers.emplace_back([&] {
        start.arrive_and_wait();
        for (int n = 0; n < 400; ++n) admitted += bounded.loop.try_post([&] { ++ran; }) ? 1 : 0;
      });
    }
  }
  EXPECT_EQ(admitted, limit);
  EXPECT_EQ(bounded.loop.metrics().tasks_refused, 1600 - limit);
  while (bounded.loop.poll()) continue;
  EXPECT_EQ(ran, limit);
}

TYPED_TEST(EventLoopLimit, NeverMoreThanTheLimitWaitWhileTheLoopRuns) {
  constexpr int limit = 4;
  typename TestFixture::loop_type loop({.inbox_limit = limit});
  std::atomic<int> waiting = 0;
  std::atomic<int> most = 0;
  std::size_t ran = 0;
  std::vector<std::jthread> producers;
  for (int i = 0; i < 3; ++i) {
    producers.emplace_back([&] {
      for (int n = 0; n < 1000;) {
        const bool admitted = loop.try_post([&] {
          waiting -= 1;
          if (++ran == 3000) loop.stop();
        });
        if (!admitted) {
          std::this_thread::yield();
          continue;
        }
        ++n;
        // Counted after admission: at most the tasks that wait, and the running one.
        const int seen = ++waiting;
        for (int before = most; seen > before && !most.compare_exchange_weak(before, seen);)
          continue;
      }
    });
  }
  loop.run();
  producers.clear();
  EXPECT_EQ(ran, 3000u);
  EXPECT_EQ(waiting, 0);
  EXPECT_LE(most, limit + 1);
}

TYPED_TEST(EventLoopLimit, ACallableThatThrowsWhenCopiedTakesNoPlace) {
  struct throws_when_copied {
    throws_when_copied() = default;
    throws_when_copied(const throws_when_copied&) { throw std::runtime_error("no copy"); }
    void operator()() const {}
  };
  typename TestFixture::bounded_loop bounded({.inbox_limit = 1});
  const throws_when_copied task;
  EXPECT_THROW(static_cast<void>(bounded.loop.try_post(task)), std::runtime_error);
  EXPECT_THROW(bounded.loop.post(task), std::runtime_error);
  EXPECT_THROW(static_cast<event_loop&>(bounded.loop).post(task), std::runtime_error);
  EXPECT_TRUE(bounded.loop.try_post([] {}));
  EXPECT_TRUE(bounded.loop.poll());
  EXPECT_EQ(bounded.loop.metrics().tasks_run, 1u);
}

TYPED_TEST(EventLoopLimit, ATaskThatThrowsGivesItsPlaceBack) {
  typename TestFixture::bounded_loop bounded({.inbox_limit = 1, .on_exception = [](auto) {}});
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(bounded.loop.try_post([] { throw std::runtime_error("task"); }));
    EXPECT_TRUE(bounded.loop.poll());
  }
}

}  // namespace
}  // namespace event_loop_limit_test

// SPDX-License-Identifier: Apache-2.0
// Tests that no source of work starves another. They count tasks and turns, never time.
#include <gyre/exec/loop.hpp>

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/fd_watch.hpp>
#include <gyre/exec/inbox/mutex.hpp>
#include <gyre/exec/inbox/sharded.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/testing/virtual_time_loop.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace event_loop_fairness_test {
namespace {

using namespace std::chrono_literals;
using gyre::testing::virtual_time_loop;

gyre::unique_fd always_readable() {
  return gyre::unique_fd(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
}

// Posts itself again whenever it runs.
struct endless_task : gyre::operation {
  explicit endless_task(gyre::event_loop& on) : operation(&run), loop(on) { loop.post(*this); }
  static void run(operation& op) {
    auto& self = static_cast<endless_task&>(op);
    ++self.runs;
    self.loop.post(self);
  }
  gyre::event_loop& loop;
  std::uint64_t runs = 0;
};

template <class Inbox>
class EventLoopFairness : public testing::Test {
 protected:
  using loop_type = gyre::basic_loop<Inbox>;
  static constexpr std::uint64_t batch = 32;
};

using inboxes = testing::Types<gyre::inbox::fifo, gyre::inbox::sharded, gyre::inbox::mutex>;
TYPED_TEST_SUITE(EventLoopFairness, inboxes);

TYPED_TEST(EventLoopFairness, ATaskThatRepostsItselfStarvesNeitherTimersNorDescriptors) {
  typename TestFixture::loop_type loop({.batch = this->batch});
  endless_task task(loop);
  std::uint64_t timer_after = 0;
  std::uint64_t watch_after = 0;
  gyre::timer timer(loop, [&] { timer_after = task.runs; });
  const auto ready = always_readable();
  gyre::fd_watch watch(loop, ready.get(), [&](gyre::readiness) { watch_after = task.runs; });
  timer.start_at(gyre::steady_time::min());
  watch.start(gyre::readiness::readable);
  EXPECT_TRUE(loop.poll());
  EXPECT_EQ(timer_after, this->batch);
  EXPECT_EQ(watch_after, this->batch);
}

// The timer and the descriptor are always due; the test counts the tasks that run in between.
// io_time is long, as a turn that exceeds it leaves descriptors to the next turn.
TYPED_TEST(EventLoopFairness, ConstantPostingOfTwoThreadsStarvesNeitherTimersNorDescriptors) {
  typename TestFixture::loop_type loop({.inbox_limit = 2000, .batch = this->batch, .io_time = 24h});
  std::uint64_t tasks = 0;
  struct service {
    std::uint64_t count = 0;
    std::uint64_t last = 0;
    std::uint64_t longest = 0;
    void serve(std::uint64_t now) {
      ++count;
      longest = std::max(longest, now - last);
      last = now;
    }
  } timers, watches;
  gyre::timer timer(loop, [&] {
    timers.serve(tasks);
    timer.start_at(gyre::steady_time::min());
  });
  const auto ready = always_readable();
  gyre::fd_watch watch(loop, ready.get(), [&](gyre::readiness) { watches.serve(tasks); });
  timer.start_at(gyre::steady_time::min());
  watch.start(gyre::readiness::readable);

  constexpr std::uint64_t enough = 20'000;
  std::atomic<bool> done = false;
  std::vector<std::jthread> producers;
  for (int i = 0; i < 2; ++i) {
    producers.emplace_back([&] {
      while (!done) {
        const bool posted = loop.try_post([&] {
          if (++tasks == enough) loop.stop();
        });
        if (!posted) std::this_thread::yield();
      }
    });
  }
  loop.run();
  done = true;
  producers.clear();
  EXPECT_GE(timers.count, enough / this->batch - 1);
  EXPECT_GE(watches.count, enough / this->batch - 1);
  EXPECT_LE(timers.longest, this->batch);
  EXPECT_LE(watches.longest, this->batch);
}

TEST(EventLoopTurn, ManyDueTimersDoNotStarveTasks) {
  virtual_time_loop<> virtual_time({.batch = 10});
  std::vector<std::unique_ptr<gyre::timer>> timers;
  for (int i = 0; i < 100; ++i) {
    timers.push_back(std::make_unique<gyre::timer>(virtual_time.loop, [] {}));
    timers.back()->start_after(1ms);
  }
  virtual_time.time.advance(1s);
  endless_task task(virtual_time.loop);
  for (std::uint64_t turn = 1; turn <= 10; ++turn) {
    virtual_time.loop.poll();
    EXPECT_EQ(virtual_time.loop.metrics().timers_fired, 10 * turn);
    EXPECT_EQ(task.runs, 10 * turn);
  }
}

TEST(EventLoopTurn, ReadyDescriptorsDoNotStarveTasksAndTimers) {
  gyre::loop loop;
  const auto ready = always_readable();
  gyre::fd_watch watch(loop, ready.get(), [](gyre::readiness) {});
  watch.start(gyre::readiness::readable);
  int timers = 0;
  int tasks = 0;
  gyre::timer timer(loop, [&] { ++timers; });
  for (int turn = 1; turn <= 10; ++turn) {
    timer.start_at(gyre::steady_time::min());
    loop.post([&] { ++tasks; });
    loop.run_once();
    EXPECT_EQ(timers, turn);
    EXPECT_EQ(tasks, turn);
  }
}

TEST(EventLoopTurn, TheRecentTimeIsReadOnceWhileIoIsServedAndNeverLater) {
  gyre::loop loop;
  const auto ready = always_readable();
  gyre::timer waiting(loop, [] {});
  waiting.start_after(1h);
  gyre::steady_time before{};
  int calls = 0;
  gyre::fd_watch watch(loop, ready.get(), [&](gyre::readiness) {
    ++calls;
    const gyre::steady_time recent = loop.recent_time();
    EXPECT_EQ(loop.recent_time(), recent);
    EXPECT_LE(before, recent);
    EXPECT_LE(recent, loop.now());
  });
  watch.start(gyre::readiness::readable);
  for (int turn = 1; turn <= 3; ++turn) {
    before = loop.now();
    EXPECT_LE(before, loop.recent_time());  // not the time of the turn before
    loop.run_once();
    EXPECT_EQ(calls, turn);
  }
}

// A loop whose tasks take `cost` of virtual time each.
class BatchTime : public testing::Test {
 protected:
  std::vector<std::uint64_t> batches(int turns, std::chrono::nanoseconds cost) {
    std::vector<std::uint64_t> sizes;
    for (int i = 0; i < 1000; ++i) loop_.post([this, cost] { virtual_time_.time.advance(cost); });
    for (int turn = 0; turn < turns; ++turn) {
      const std::uint64_t before = loop_.metrics().tasks_run;
      loop_.poll();
      sizes.push_back(loop_.metrics().tasks_run - before);
    }
    return sizes;
  }
  virtual_time_loop<> virtual_time_{gyre::loop_options{.batch = 64, .batch_time = 1ms}};
  gyre::loop& loop_ = virtual_time_.loop;
  gyre::timer waiting_{loop_, [] {}};
};

TEST_F(BatchTime, SlowTasksMakeTheBatchSmallerWhileATimerWaits) {
  waiting_.start_after(100h);
  EXPECT_THAT(batches(5, 100us), testing::ElementsAre(64, 32, 16, 8, 16));
}

TEST_F(BatchTime, TheSmallestBatchIsOneTask) {
  waiting_.start_after(100h);
  EXPECT_THAT(batches(9, 2ms), testing::ElementsAre(64, 32, 16, 8, 4, 2, 1, 1, 1));
}

TEST_F(BatchTime, FastTasksMakeItLargeAgain) {
  waiting_.start_after(100h);
  batches(4, 2ms);
  while (loop_.poll()) continue;
  for (int i = 0; i < 12; ++i) batches(1, 0ns);
  EXPECT_THAT(batches(1, 0ns), testing::ElementsAre(64));
}

TEST_F(BatchTime, ABatchThatIsNotFullCountsToo) {
  waiting_.start_after(100h);
  for (int i = 0; i < 40; ++i) loop_.post([this] { virtual_time_.time.advance(100us); });
  loop_.poll();
  EXPECT_THAT(batches(3, 100us), testing::ElementsAre(20, 10, 20));
}

TEST_F(BatchTime, WithNothingElseToServeItStaysLarge) {
  EXPECT_THAT(batches(4, 2ms), testing::Each(64));
}

// An inbox in which each check takes a millisecond, as if other threads took the loop's core
// meanwhile.
struct slow_to_look_into {
  static constexpr auto order = gyre::inbox::ordering::total;
  static inline gyre::testing::virtual_poller* time = nullptr;
  static inline int looks = 0;

  void push(auto&&) {}
  void run(gyre::inbox::batch&) {}
  bool ready() noexcept {
    ++looks;
    if (time != nullptr) time->advance(1ms);
    return false;
  }
  std::size_t pending() const noexcept { return 0; }
};

TEST(EventLoopLooking, DoesNotKeepATimerWaitingForTasksThatDoNotCome) {
  virtual_time_loop<gyre::basic_loop<slow_to_look_into>> virtual_time;
  bool fired = false;
  gyre::timer timer(virtual_time.loop, [&] { fired = true; });
  timer.start_after(10ms);
  slow_to_look_into::time = &virtual_time.time;
  virtual_time.loop.run_once();
  slow_to_look_into::time = nullptr;
  EXPECT_TRUE(fired);
  EXPECT_LT(slow_to_look_into::looks, 100);
}

}  // namespace
}  // namespace event_loop_fairness_test

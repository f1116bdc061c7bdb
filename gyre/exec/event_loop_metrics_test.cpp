// SPDX-License-Identifier: Apache-2.0
// Tests of a loop's counters, above all its wake-ups, and that an idle loop uses no CPU.
#include <gyre/exec/loop.hpp>

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/fd_watch.hpp>
#include <gyre/exec/inbox/mutex.hpp>
#include <gyre/exec/inbox/sharded.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/testing/virtual_time_loop.hpp>

#include <gtest/gtest.h>

#include <sys/eventfd.h>

#include <chrono>
#include <initializer_list>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace event_loop_metrics_test {
namespace {

using namespace std::chrono_literals;
using gyre::loop_metrics;
using gyre::testing::virtual_time_loop;

template <class Inbox>
class EventLoopWakeups : public testing::Test {
 protected:
  using loop_type = gyre::basic_loop<Inbox>;

  // Lets the loop sleep once; meanwhile `threads` threads post 50 tasks each, one after the other.
  static void post_while_asleep(virtual_time_loop<loop_type>& sleeper, int threads) {
    int left = threads * 50;
    sleeper.time.on_sleep([&, posted = false]() mutable {
      if (std::exchange(posted, true)) return;
      std::vector<std::jthread> producers;
      for (int i = 0; i < threads; ++i) {
        producers.emplace_back([&] {
          for (int n = 0; n < 50; ++n) {
            sleeper.loop.post([&] {
              if (--left == 0) sleeper.loop.stop();
            });
          }
        });
      }
    });
    sleeper.loop.run();
    sleeper.loop.restart();
    sleeper.time.on_sleep({});
  }
};

using inboxes = testing::Types<gyre::inbox::fifo, gyre::inbox::sharded, gyre::inbox::mutex>;
TYPED_TEST_SUITE(EventLoopWakeups, inboxes);

TYPED_TEST(EventLoopWakeups, ManyPostsToASleepingLoopShareOne) {
  virtual_time_loop<typename TestFixture::loop_type> sleeper;
  this->post_while_asleep(sleeper, 1);
  EXPECT_EQ(sleeper.time.wakes(), 1u);
  this->post_while_asleep(sleeper, 4);
  EXPECT_EQ(sleeper.time.wakes(), 2u);
  EXPECT_EQ(sleeper.loop.metrics().wakeups, 2u);
  EXPECT_EQ(sleeper.loop.metrics().tasks_run, 250u);
}

TYPED_TEST(EventLoopWakeups, PostsToALoopThatIsAwakeNeedNone) {
  virtual_time_loop<typename TestFixture::loop_type> awake;
  awake.loop.post([&] {
    std::thread([&] {
      for (int n = 0; n < 100; ++n) awake.loop.post([] {});
    }).join();
    awake.loop.post([] {});
  });
  while (awake.loop.poll()) continue;
  EXPECT_EQ(awake.time.wakes(), 0u);
  EXPECT_EQ(awake.loop.metrics().tasks_run, 102u);
}

TYPED_TEST(EventLoopWakeups, PostsToALoopThatNobodyRunsNeedNone) {
  virtual_time_loop<typename TestFixture::loop_type> idle;
  std::thread([&] { idle.loop.post([] {}); }).join();
  EXPECT_EQ(idle.time.wakes(), 0u);
}

TYPED_TEST(EventLoopWakeups, PerTaskModeWakesOnceForEachTask) {
  virtual_time_loop<typename TestFixture::loop_type> published({.wakeup = gyre::wakeup::per_task});
  struct idle : gyre::operation {
    idle() : operation([](operation&) {}) {}
  } op;
  published.loop.post(op);
  static_cast<gyre::event_loop&>(published.loop).post([] {});
  std::thread([&] {
    for (int n = 0; n < 98; ++n) published.loop.post([] {});
  }).join();
  EXPECT_EQ(published.time.wakes(), 100u);
  while (published.loop.poll()) continue;
  EXPECT_EQ(published.loop.metrics().wakeups, 100u);
}

TYPED_TEST(EventLoopWakeups, PerTaskModeWakesASleepingLoop) {
  virtual_time_loop<typename TestFixture::loop_type> published({.wakeup = gyre::wakeup::per_task});
  this->post_while_asleep(published, 2);
  EXPECT_EQ(published.loop.metrics().tasks_run, 100u);
  EXPECT_GE(published.time.wakes(), 100u);
}

TEST(EventLoopMetrics, ANewLoopHasCountedNothing) {
  const gyre::loop loop;
  const loop_metrics metrics = loop.metrics();
  EXPECT_EQ(metrics.tasks_run + metrics.tasks_refused + metrics.timers_fired + metrics.io_events +
                metrics.exceptions + metrics.turns + metrics.polls + metrics.sleeps +
                metrics.wakeups + metrics.tasks_pending + metrics.timers_pending +
                metrics.descriptors_watched + metrics.timer_lateness.count() +
                metrics.wakeup_lateness.count() + metrics.post_lateness.count(),
            0u);
}

TEST(EventLoopMetrics, CountTasksAndTimers) {
  virtual_time_loop<> virtual_time;
  gyre::loop& loop = virtual_time.loop;
  gyre::timer periodic(loop, [] {});
  gyre::timer once(loop, [] {});
  periodic.start_every(10ms);
  once.start_after(1h);
  for (int i = 0; i < 3; ++i) loop.post([] {});
  loop.post_after(5ms, [] {});
  EXPECT_EQ(loop.metrics().tasks_pending, 4u);
  EXPECT_EQ(loop.metrics().timers_pending, 2u);
  loop.poll();
  EXPECT_EQ(loop.metrics().tasks_pending, 0u);
  EXPECT_EQ(loop.metrics().timers_pending, 3u);
  loop.run_for(35ms);
  const loop_metrics metrics = loop.metrics();
  EXPECT_EQ(metrics.tasks_run, 4u);
  EXPECT_EQ(metrics.timers_fired, 4u);
  EXPECT_EQ(metrics.timers_pending, 2u);
  EXPECT_EQ(metrics.sleeps, virtual_time.time.waits());
}

TEST(EventLoopMetrics, CountDescriptorsAndSystemCalls) {
  gyre::loop loop;
  const gyre::unique_fd ready(eventfd(1, EFD_CLOEXEC));
  gyre::fd_watch watch(loop, ready.get(), [](gyre::readiness) {});
  watch.start(gyre::readiness::readable);
  EXPECT_EQ(loop.metrics().descriptors_watched, 1u);
  loop.poll();      // polls
  loop.run_once();  // may wait
  const loop_metrics metrics = loop.metrics();
  EXPECT_EQ(metrics.io_events, 2u);
  EXPECT_EQ(metrics.polls, 1u);
  EXPECT_EQ(metrics.sleeps, 1u);
  EXPECT_EQ(metrics.turns, 2u);
}

TEST(EventLoopMetrics, RecordHowLateTimersAre) {
  virtual_time_loop<> scripted;
  gyre::timer punctual(scripted.loop, [] {});
  gyre::timer late(scripted.loop, [] {});
  punctual.start_after(1ms);
  scripted.loop.run_once();
  scripted.loop.post([&] { scripted.time.advance(40ms); });
  late.start_after(10ms);
  scripted.loop.run_once();
  const gyre::histogram lateness = scripted.loop.metrics().timer_lateness;
  EXPECT_EQ(lateness.count(), 2u);
  // A wheel of timers wakes its loop a little after a deadline.
  EXPECT_GE(lateness.max(), 30ms);
  EXPECT_LT(lateness.sum(), 31ms);
  loop_metrics sum = scripted.loop.metrics();
  sum += scripted.loop.metrics();
  EXPECT_EQ(sum.timer_lateness.count(), 4u);
}

TEST(EventLoopMetrics, RecordHowLateAPostIsThatWakesTheLoop) {
  virtual_time_loop<> sleeper;
  gyre::loop& loop = sleeper.loop;
  sleeper.time.on_sleep([&] {
    std::thread([&] { loop.post([] {}); }).join();
    sleeper.time.advance(40ms);
    // Neither the second task nor a post to the loop when it is awake wakes it.
    std::thread([&] { loop.post([] {}); }).join();
  });
  for (int sleep = 0; sleep < 3; ++sleep) loop.run_once();
  std::thread([&] { loop.post([] {}); }).join();
  sleeper.time.advance(1s);
  loop.run_once();
  const gyre::histogram lateness = loop.metrics().wakeup_lateness;
  EXPECT_EQ(lateness.count(), 3u);
  EXPECT_EQ(lateness.sum(), 120ms);
  loop_metrics sum = loop.metrics();
  sum += loop.metrics();
  EXPECT_EQ(sum.wakeup_lateness.count(), 6u);
}

TEST(EventLoopMetrics, AWakeUpWithoutATaskIsNotALatePost) {
  virtual_time_loop<> sleeper;
  gyre::loop& loop = sleeper.loop;
  gyre::timer timer(loop, [] {});
  timer.start_after(1ms);
  sleeper.time.on_sleep([&] {
    loop.stop();
    sleeper.time.advance(1s);
  });
  loop.run();
  loop.restart();
  loop.post([] {});
  loop.run_once();
  EXPECT_EQ(loop.metrics().wakeup_lateness.count(), 0u);
}

template <class Inbox>
class EventLoopPostLateness : public testing::Test {};

// Blocks of four cells let a few posts begin several blocks.
using inboxes_of_small_blocks =
    testing::Types<gyre::inbox::basic_fifo<4>, gyre::inbox::basic_sharded<4>>;
TYPED_TEST_SUITE(EventLoopPostLateness, inboxes_of_small_blocks);

TYPED_TEST(EventLoopPostLateness, IsThatOfTheFirstPostOfEachBlockButTheFirst) {
  gyre::basic_loop<TypeParam> loop;
  const auto begin = std::chrono::steady_clock::now();
  for (int task = 0; task < 13; ++task) loop.post([] {});
  const auto posted = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(2ms);
  const auto run = std::chrono::steady_clock::now();
  while (loop.poll()) continue;
  const auto end = std::chrono::steady_clock::now();
  const gyre::histogram lateness = loop.metrics().post_lateness;
  EXPECT_EQ(lateness.count(), 3u);
  EXPECT_GE(lateness.sum(), 3 * (run - posted));
  EXPECT_LE(lateness.max(), end - begin);
  loop_metrics sum = loop.metrics();
  sum += loop.metrics();
  EXPECT_EQ(sum.post_lateness.count(), 6u);
}

TYPED_TEST(EventLoopPostLateness, IsRecordedWithALimitToo) {
  gyre::basic_loop<TypeParam> loop({.inbox_limit = 100});
  for (int round = 0; round < 10; ++round) {
    for (int task = 0; task < 8; ++task) loop.post([] {});
    while (loop.poll()) continue;
  }
  EXPECT_EQ(loop.metrics().post_lateness.count(), 19u);
}

TEST(EventLoopMetrics, SayWhatTheLoopDoesItsIoWith) {
  const gyre::loop on_epoll({.io = gyre::io_interface::epoll});
  EXPECT_STREQ(on_epoll.metrics().io, "epoll");
  const virtual_time_loop<> scripted;
  EXPECT_STREQ(scripted.loop.metrics().io, scripted.time.name());
  EXPECT_STREQ(loop_metrics().io, "");
}

TEST(EventLoopMetrics, SumNamesTheIoInterfaceThatAllLoopsUse) {
  const auto io_of = [](std::initializer_list<const char*> loops) {
    loop_metrics sum;
    for (const char* io : loops) sum += loop_metrics{.io = io};
    return std::string(sum.io);
  };
  EXPECT_EQ(io_of({"epoll"}), "epoll");
  EXPECT_EQ(io_of({"uring", "uring"}), "uring");
  EXPECT_EQ(io_of({"epoll", "uring"}), "several");
  EXPECT_EQ(io_of({"epoll", "uring", "epoll"}), "several");
  EXPECT_EQ(io_of({"", "epoll", ""}), "epoll");
}

TEST(EventLoopMetrics, CanBeReadFromAnyThreadWhileTheLoopRuns) {
  gyre::loop loop;
  std::jthread reader([&] {
    while (loop.metrics().tasks_run == 0) std::this_thread::yield();
    loop.stop();
  });
  loop.post([] {});
  loop.run();
  EXPECT_EQ(loop.metrics().tasks_run, 1u);
}

// Parameter: whether the loop watches a descriptor. The only test of this room that uses real time:
// it relies on nothing happening.
class EventLoopIdle : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(, EventLoopIdle, testing::Bool(), [](const auto& watching) {
  return watching.param ? "Watching" : "WatchingNothing";
});

TEST_P(EventLoopIdle, UsesNoProcessor) {
  gyre::loop loop;
  const gyre::unique_fd silent(eventfd(0, EFD_CLOEXEC));
  gyre::fd_watch watch(loop, silent.get(), [](gyre::readiness) { FAIL(); });
  if (GetParam()) watch.start(gyre::readiness::readable);
  for (int i = 0; i < 10'000; ++i)
    loop.post([] {});  // the loop has been busy, and looks for more tasks
  while (loop.poll()) continue;

  const loop_metrics before = loop.metrics();
  loop.run_for(50ms);
  EXPECT_LE(loop.metrics().turns - before.turns, 3u);
}

}  // namespace
}  // namespace event_loop_metrics_test

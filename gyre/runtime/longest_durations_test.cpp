// SPDX-License-Identifier: Apache-2.0
// Tests that no function and no option takes a very long time of a coarse unit for a short one.
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/executor_watchdog.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/pool/future.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/runtime/loop_pool.hpp>
#include <gyre/runtime/runtime.hpp>
#include <gyre/sync/async_cache.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/sync/rate_limiter.hpp>
#include <gyre/sync/select.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/hedge.hpp>
#include <gyre/task/interval.hpp>
#include <gyre/task/retry.hpp>
#include <gyre/task/shielded.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>
#include <gyre/testing/virtual_time_loop.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace longest_durations_test {
namespace {

using namespace std::chrono_literals;
using gyre::sleep_for;
using gyre::task;
using gyre::testing::manual_executor;
using gyre::testing::run_in_virtual_time;
using gyre::testing::virtual_time_loop;

struct milliseconds {
  static constexpr auto longest = std::chrono::milliseconds::max();
};
struct seconds {
  static constexpr auto longest = std::chrono::seconds::max();
};
struct hours {
  static constexpr auto longest = std::chrono::hours::max();
};
struct thousand_years {
  static constexpr auto longest = std::chrono::years{1000};
};
struct fraction {
  static constexpr auto longest = std::chrono::duration<double>{1e300};
};

template <class Unit>
class LongestDurations : public testing::Test {
 public:
  static constexpr auto longest = Unit::longest;
  // The longest duration as a point in time.
  static constexpr std::chrono::time_point<std::chrono::steady_clock,
                                           std::remove_const_t<decltype(longest)>>
      latest{longest};

  template <gyre::awaitable Awaitable>
  gyre::task_result_t<Awaitable> run(Awaitable work) {
    return run_in_virtual_time(executor, std::move(work));
  }
  // Whether `work` still waits after a day.
  template <gyre::awaitable Awaitable>
  bool waits(Awaitable work) {
    auto limited = gyre::as_expected(gyre::with_timeout(std::move(work), 24h));
    const auto result = run(std::move(limited));
    return !result && result.error() == std::errc::timed_out;
  }

  manual_executor executor;
};

using units = testing::Types<milliseconds, seconds, hours, thousand_years, fraction>;
TYPED_TEST_SUITE(LongestDurations, units);

// ---- task and sync

TYPED_TEST(LongestDurations, SleepersSleep) {
  EXPECT_TRUE(this->waits(sleep_for(this->longest)));
  EXPECT_TRUE(this->waits(gyre::sleep_until(this->latest)));
}

TYPED_TEST(LongestDurations, LimitsOfOperationsAreNotReached) {
  EXPECT_NO_THROW(this->run(gyre::with_timeout(sleep_for(1h), this->longest)));
  EXPECT_NO_THROW(this->run(gyre::shielded(sleep_for(1h), this->longest)));
}

TYPED_TEST(LongestDurations, OtherCasesOfSelectComeFirst) {
  EXPECT_EQ(this->run(gyre::select(gyre::on_timeout(this->longest), gyre::on_timeout(1h))).index(),
            1U);
  EXPECT_EQ(this->run(gyre::select(gyre::on_deadline(this->latest), gyre::on_timeout(1h))).index(),
            1U);
}

TYPED_TEST(LongestDurations, IntervalsDoNotTick) {
  gyre::interval late(1h, {.first_delay = this->longest});
  EXPECT_TRUE(this->waits(late.tick()));
  gyre::interval rare(this->longest);
  this->run(rare.tick());
  EXPECT_TRUE(this->waits(rare.tick()));
  gyre::interval moved(1h);
  moved.reset_at(this->latest);
  EXPECT_TRUE(this->waits(moved.tick()));
}

TYPED_TEST(LongestDurations, HedgesDoNotBegin) {
  std::size_t attempts = 0;
  const auto attempt = [&](std::size_t) -> task<> {
    ++attempts;
    co_await sleep_for(1h);
  };
  this->run(gyre::hedge(attempt, {.delay = this->longest}));
  EXPECT_EQ(attempts, 1U);
}

TYPED_TEST(LongestDurations, RetriesGoOnUntilTheirLimitAndWaitForTheirDelay) {
  std::size_t attempts = 0;
  const auto attempt = [&](std::size_t number) -> task<> {
    ++attempts;
    co_await sleep_for(1s);
    if (number < 2) throw std::runtime_error("not yet");
  };
  this->run(gyre::retry(
      attempt, {.delay = {.initial = 1h, .longest = this->longest}, .time_limit = this->longest}));
  EXPECT_EQ(attempts, 3U);
  attempts = 0;
  const gyre::exponential_backoff rare{.initial = this->longest, .longest = this->longest};
  EXPECT_TRUE(this->waits(gyre::retry(attempt, {.delay = rare, .jitter = false})));
  EXPECT_EQ(attempts, 1U);
}

TYPED_TEST(LongestDurations, TokensDoNotComeBack) {
  gyre::rate_limiter limiter({.tokens = 1, .per = this->longest, .burst = 1});
  EXPECT_FALSE(this->waits(limiter.acquire()));
  EXPECT_TRUE(this->waits(limiter.acquire()));
  EXPECT_FALSE(limiter.try_acquire(this->executor.now() + 24h));
}

TYPED_TEST(LongestDurations, CachedValuesStay) {
  gyre::async_cache<int, int> cache(
      {.capacity = 1, .time_to_live = this->longest, .clock = this->executor.timers()});
  const auto load = [](int key) -> task<int> { co_return key; };
  EXPECT_EQ(*this->run(cache.get(7, load)), 7);
  this->executor.advance(24h);
  EXPECT_NE(cache.try_get(7), nullptr);
}

// ---- exec

TYPED_TEST(LongestDurations, TimersDoNotExpire) {
  virtual_time_loop virtual_time;
  gyre::event_loop& loop = virtual_time.loop;
  int calls = 0;
  gyre::timer once(loop, [&] { ++calls; });
  gyre::timer at(loop, [&] { ++calls; });
  gyre::timer periodic(loop, [&] { ++calls; });
  gyre::timer later(loop, [&] { ++calls; });
  once.start_after(this->longest);
  at.start_at(this->latest);
  periodic.start_every(this->longest);
  later.start_every(1h, this->latest);
  loop.post_after(this->longest, [&] { ++calls; });
  loop.post_at(this->latest, [&] { ++calls; });
  loop.run_for(24h);
  EXPECT_EQ(calls, 0);
  EXPECT_TRUE(once.active() && at.active() && periodic.active() && later.active());
}

TYPED_TEST(LongestDurations, LoopsRunUntilTheyAreStopped) {
  virtual_time_loop virtual_time;
  gyre::event_loop& loop = virtual_time.loop;
  loop.post_after(1h, [&] { loop.stop(); });
  loop.run_for(this->longest);
  EXPECT_TRUE(loop.stopped());
  loop.post_after(1h, [&] { loop.stop(); });
  loop.run_until(this->latest);
  EXPECT_TRUE(loop.stopped());
}

TYPED_TEST(LongestDurations, LoopsMayTakeAsLongAsTheyLike) {
  virtual_time_loop virtual_time(
      {.batch_time = this->longest, .io_time = this->longest, .busy_poll = this->longest});
  int calls = 0;
  for (int i = 0; i < 10; ++i) virtual_time.loop.post([&] { ++calls; });
  virtual_time.loop.poll();
  EXPECT_EQ(calls, 10);
}

TYPED_TEST(LongestDurations, WatchdogsReportNothing) {
  virtual_time_loop virtual_time;
  int reports = 0;
  {
    gyre::executor_watchdog watchdog(
        {.limit = this->longest, .on_hold = [&](const gyre::held_executor&) { ++reports; }});
    watchdog.watch(virtual_time.loop, "held");
  }
  virtual_time.loop.poll();
  EXPECT_EQ(reports, 0);
}

TYPED_TEST(LongestDurations, ThreadsAreJoinedWhenTheyEnd) {
  gyre::loop_thread thread;
  thread.loop().post([&] { thread.stop(); });
  EXPECT_TRUE(thread.join_for(this->longest));
  gyre::loop_pool pool(2);
  for (std::size_t i = 0; i < pool.size(); ++i) {
    pool[i].post([&] { pool.stop(); });
  }
  EXPECT_TRUE(pool.join_for(this->longest));
}

// ---- pool

TYPED_TEST(LongestDurations, WaitsForAPoolEndWithItsWork) {
  gyre::thread_pool pool({.workers = 1, .aging = this->longest});
  std::counting_semaphore<> go(0);
  const auto first = pool.submit([&] { go.acquire(); });
  const auto second = pool.submit([&] { go.acquire(); });
  const auto third = pool.submit([&] { go.acquire(); });
  std::jthread helper([&] { go.release(3); });
  EXPECT_TRUE(first.wait_for(this->longest));
  EXPECT_TRUE(second.wait_until(this->latest));
  EXPECT_TRUE(pool.wait_idle_for(this->longest));
  EXPECT_TRUE(third.ready());
}

TYPED_TEST(LongestDurations, DelayedTasksOfAPoolDoNotStart) {
  gyre::thread_pool pool({.workers = 1});
  int calls = 0;
  pool.post_after(this->longest, [&] { ++calls; });
  pool.post_at(this->latest, [&] { ++calls; });
  pool.submit([] {}).get();
  pool.stop();
  EXPECT_EQ(calls, 0);
}

TYPED_TEST(LongestDurations, AStopOfAPoolDropsNothing) {
  gyre::thread_pool pool({.workers = 1});
  int calls = 0;
  for (int i = 0; i < 1000; ++i) pool.post([&] { ++calls; });
  EXPECT_TRUE(pool.stop(this->longest));
  EXPECT_EQ(calls, 1000);
}

TYPED_TEST(LongestDurations, SubmissionsWaitForASlot) {
  gyre::thread_pool pool({.workers = 1, .capacity = 1, .block_timeout = this->longest});
  std::binary_semaphore go(0);
  pool.post([&] { go.acquire(); });
  std::jthread helper([&] { go.release(); });
  for (int i = 0; i < 100; ++i) EXPECT_NO_THROW(pool.post([] {}));
  pool.drain();
}

// ---- runtime

// Continues after a stop request, until the event is set.
task<> wait_for(gyre::manual_reset_event& finish) { co_await gyre::shielded(finish.wait()); }

TYPED_TEST(LongestDurations, ARuntimeDrainsUntilItsTasksEnd) {
  gyre::runtime runtime({.loops = 1, .pool = {.workers = 1}, .drain_time = this->longest});
  gyre::manual_reset_event finish;
  bool is_forced = false;
  const gyre::shutdown_hook forced =
      runtime.on_shutdown(gyre::shutdown_phase::force, [&] { is_forced = true; });
  EXPECT_EQ(runtime.run([&](gyre::runtime& self) -> task<> {
    self.spawn(wait_for(finish), gyre::shutdown_phase::force);
    self.shutdown();
    for (int i = 0; i < 100; ++i) co_await gyre::shielded(gyre::yield());
    finish.set();
  }),
            0);
  EXPECT_FALSE(is_forced);
}

TYPED_TEST(LongestDurations, ARuntimeThatIsForcedWaitsForItsTasks) {
  gyre::runtime runtime(
      {.loops = 1, .pool = {.workers = 1}, .drain_time = 0s, .force_time = this->longest});
  gyre::manual_reset_event finish;
  bool is_forced = false;
  const gyre::shutdown_hook forced = runtime.on_shutdown(gyre::shutdown_phase::force, [&] {
    is_forced = true;
    finish.set();
  });
  EXPECT_EQ(runtime.run([&](gyre::runtime& self) -> task<> {
    self.spawn(wait_for(finish));
    self.shutdown();
    co_return;
  }),
            0);
  EXPECT_TRUE(is_forced);
}

// ---- options

TEST(NegativeDurations, AreRefusedAsOptions) {
  EXPECT_THROW(virtual_time_loop<>({.batch_time = -1ns}), std::invalid_argument);
  EXPECT_THROW(virtual_time_loop<>({.io_time = -1ns}), std::invalid_argument);
  EXPECT_THROW(virtual_time_loop<>({.busy_poll = std::chrono::hours::min()}),
               std::invalid_argument);
  EXPECT_THROW(gyre::thread_pool({.block_timeout = -1s}), std::invalid_argument);
  EXPECT_THROW(gyre::thread_pool({.aging = -1s}), std::invalid_argument);
  EXPECT_THROW(gyre::runtime({.drain_time = -1s}), std::invalid_argument);
  EXPECT_THROW(gyre::runtime({.force_time = -1s}), std::invalid_argument);
}

TEST(NegativeDurations, AreNoDelays) {
  using gyre::testing::run_in_virtual_time;
  manual_executor executor;
  const gyre::steady_time start = executor.now();
  run_in_virtual_time(executor, sleep_for(std::chrono::hours::min()));
  EXPECT_EQ(executor.now(), start);
}

}  // namespace
}  // namespace longest_durations_test

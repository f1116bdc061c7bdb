// SPDX-License-Identifier: Apache-2.0
// Tests of sleeping on loops, in virtual time.
#include <gyre/task/sleep.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/task/interval.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/testing/virtual_time_loop.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <system_error>
#include <thread>
#include <vector>

namespace sleep_test {
namespace {

using namespace std::chrono_literals;
using gyre::inplace_stop_source;
using gyre::sleep_for;
using gyre::task;
using gyre::testing::virtual_time_loop;
using std::chrono::nanoseconds;

task<> sleep_often(int times, nanoseconds each) {
  for (int i = 0; i < times; ++i) co_await sleep_for(each);
}

TEST(SleepOnALoop, TakesItsTimeAndNoMore) {
  virtual_time_loop<> virtual_time;
  const gyre::steady_time start = virtual_time.loop.now();
  gyre::sync_wait(virtual_time.loop, sleep_often(100, 1h));
  EXPECT_GE(virtual_time.loop.now(), start + 100h);
  EXPECT_LT(virtual_time.loop.now(), start + 100h + 1ms);
}

TEST(SleepOnALoop, ZeroDurationLetsTheLoopTurnButNoTimePass) {
  virtual_time_loop<> virtual_time;
  const gyre::steady_time start = virtual_time.loop.now();
  gyre::sync_wait(virtual_time.loop, sleep_often(1000, 0ns));
  EXPECT_EQ(virtual_time.loop.now(), start);
}

TEST(SleepOnALoop, StopsFromAnotherThread) {
  gyre::loop loop;
  inplace_stop_source source;
  std::jthread stopper;
  loop.post([&] { stopper = std::jthread([&] { source.request_stop(); }); });
  try {
    gyre::sync_wait(loop, sleep_for(100h), source.get_token());
    ADD_FAILURE() << "slept on";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::operation_canceled);
  }
}

TEST(SleepOnALoop, RacesItsTimeWithTheStopOfAnotherThread) {
  gyre::loop loop;
  for (int round = 0; round < 300; ++round) {
    inplace_stop_source source;
    std::jthread stopper([&] { source.request_stop(); });
    try {
      gyre::sync_wait(loop, sleep_for(std::chrono::microseconds(round % 50)), source.get_token());
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), std::errc::operation_canceled);
    }
  }
}

TEST(SleepOnALoop, HappensWhereTheCoroutineWent) {
  gyre::loop here;
  gyre::loop_thread there;
  gyre::sync_wait(here, [](gyre::event_loop& other) -> task<> {
    co_await gyre::resume_on(other);
    co_await sleep_for(1us);
    EXPECT_TRUE(other.in_loop_thread());
  }(there.loop()));
}

TEST(SleepOnALoop, IntervalOnALoopThatWasBusyLeavesOutTheMissedTicks) {
  virtual_time_loop<> virtual_time;
  const gyre::steady_time start = virtual_time.loop.now();
  gyre::timer busy(virtual_time.loop, [&] { virtual_time.time.advance(35ms); });
  busy.start_at(start + 5ms);
  const auto ticks = [](std::vector<nanoseconds>& due, gyre::steady_time begin) -> task<> {
    gyre::interval every(10ms);
    for (int i = 0; i < 4; ++i) {
      const gyre::steady_time each = co_await every.tick();
      due.push_back(each - begin);
    }
  };
  std::vector<nanoseconds> due;
  gyre::sync_wait(virtual_time.loop, ticks(due, start));
  EXPECT_EQ(due, (std::vector<nanoseconds>{0ms, 10ms, 50ms, 60ms}));
}

TEST(SleepOnALoop, LeavesNoTimerWhenItIsStopped) {
  virtual_time_loop<> virtual_time;
  inplace_stop_source source;
  std::error_code error;
  gyre::spawn(virtual_time.loop,
              [](std::error_code& told) -> task<> {
                try {
                  co_await sleep_for(1h);
                } catch (const gyre::operation_cancelled&) {
                  told = std::make_error_code(std::errc::operation_canceled);
                }
              }(error),
              {.stop = source.get_token()});
  virtual_time.loop.poll();
  EXPECT_EQ(virtual_time.loop.metrics().timers_pending, 1);
  source.request_stop();
  virtual_time.loop.poll();
  EXPECT_EQ(error, std::errc::operation_canceled);
  EXPECT_EQ(virtual_time.loop.metrics().timers_pending, 0);
}

}  // namespace
}  // namespace sleep_test

// SPDX-License-Identifier: Apache-2.0
#include <gyre/testing/virtual_time_loop.hpp>

#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/fd_watch.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

namespace virtual_time_loop_test {
namespace {

using namespace std::chrono_literals;
using gyre::testing::virtual_time_loop;

gyre::task<> note_after(std::chrono::hours delay, std::vector<int>& log) {
  co_await gyre::sleep_for(delay);
  log.push_back(static_cast<int>(delay.count()));
}

gyre::task<> note_three(std::vector<int>& log) {
  co_await gyre::when_all(note_after(3h, log), note_after(1h, log), note_after(2h, log));
}

TEST(VirtualTimeLoop, ASleepTakesItsTimeAndNoRealTime) {
  virtual_time_loop virtual_time;
  std::vector<int> log;
  const gyre::steady_time begin = virtual_time.time.now();
  gyre::sync_wait(virtual_time.loop, note_after(1000h, log));
  EXPECT_GE(virtual_time.time.now() - begin, 1000h);
  EXPECT_LT(virtual_time.time.now() - begin, 1000h + 1ms);
}

TEST(VirtualTimeLoop, SleepersRunInTheOrderOfTheirDeadlines) {
  virtual_time_loop virtual_time;
  std::vector<int> log;
  gyre::sync_wait(virtual_time.loop, note_three(log));
  EXPECT_EQ(log, (std::vector{1, 2, 3}));
}

TEST(VirtualTimeLoop, TimeAdvancedByHandMakesTimersDue) {
  virtual_time_loop virtual_time;
  int fired = 0;
  gyre::timer timer(virtual_time.loop, [&] { ++fired; });
  timer.start_after(1min);
  virtual_time.loop.poll();
  EXPECT_EQ(fired, 0);
  virtual_time.time.advance(1min + 1ms);
  virtual_time.loop.poll();
  EXPECT_EQ(fired, 1);
}

TEST(VirtualTimeLoop, TimeStandsStillWhileThereIsWork) {
  virtual_time_loop virtual_time;
  const gyre::steady_time begin = virtual_time.time.now();
  gyre::timer timer(virtual_time.loop, [] {});
  timer.start_after(1h);
  for (int i = 0; i < 10; ++i) virtual_time.loop.post([] {});
  virtual_time.loop.poll();
  EXPECT_EQ(virtual_time.time.now(), begin);
}

TEST(VirtualTimeLoop, APostOfAnotherThreadEndsAWaitWithoutDeadline) {
  virtual_time_loop virtual_time;
  bool posted = false;
  const std::jthread other([&] {
    virtual_time.loop.post([&] {
      posted = true;
      virtual_time.loop.stop();
    });
  });
  virtual_time.loop.run();
  EXPECT_TRUE(posted);
}

TEST(VirtualTimeLoop, CallsTheHookWhenTheLoopSleepsNotWhenItPolls) {
  virtual_time_loop virtual_time;
  int sleeps = 0;
  virtual_time.time.on_sleep([&] { ++sleeps; });
  virtual_time.loop.poll();
  EXPECT_EQ(sleeps, 0);
  gyre::timer timer(virtual_time.loop, [] {});
  timer.start_after(1h);
  virtual_time.loop.run_once();
  EXPECT_GE(sleeps, 1);
}

gyre::task<> wait_for(gyre::manual_reset_event& event) { co_await event.wait(); }

TEST(VirtualTimeLoop, RunReportsACoroutineThatNothingCanResume) {
  virtual_time_loop virtual_time;
  gyre::manual_reset_event never;
  EXPECT_THROW(virtual_time.run(wait_for(never)), std::logic_error);
  std::vector<int> log;
  virtual_time.run(note_after(1h, log));
  EXPECT_EQ(log, std::vector{1});
}

TEST(VirtualTimeLoop, AdvancesToTheEndOfTimeAtMost) {
  virtual_time_loop virtual_time;
  virtual_time.time.advance(std::chrono::hours::max());
  EXPECT_EQ(virtual_time.loop.now(), gyre::steady_time::max());
}

TEST(VirtualTimeLoop, RefusesToWatchADescriptor) {
  virtual_time_loop virtual_time;
  gyre::fd_watch watch(virtual_time.loop, STDIN_FILENO, [](gyre::readiness) {});
  EXPECT_THROW(watch.start(gyre::readiness::readable), std::system_error);
}

}  // namespace
}  // namespace virtual_time_loop_test

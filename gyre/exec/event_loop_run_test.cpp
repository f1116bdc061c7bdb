// SPDX-License-Identifier: Apache-2.0
// Tests of the ways to run a loop: run_once, poll, run_for and run_until, in virtual time.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/loop_thread.hpp>

#include <gyre/exec/timer.hpp>
#include <gyre/testing/virtual_time_loop.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace event_loop_run_test {
namespace {

using namespace std::chrono_literals;
using gyre::event_loop;
using gyre::steady_time;
using gyre::testing::virtual_time_loop;

class EventLoopRun : public testing::Test {
 protected:
  virtual_time_loop<> virtual_time_;
  gyre::loop& loop_ = virtual_time_.loop;
};

TEST_F(EventLoopRun, PollDoesNotWait) {
  gyre::timer later(loop_, [] { FAIL(); });
  later.start_after(1s);
  const steady_time before = loop_.now();
  EXPECT_FALSE(loop_.poll());
  EXPECT_EQ(loop_.now(), before);
  EXPECT_EQ(loop_.metrics().sleeps, 0u);
}

TEST_F(EventLoopRun, PollRunsTasksAndTimersThatAreDue) {
  int timers = 0;
  int tasks = 0;
  gyre::timer due(loop_, [&] { ++timers; });
  due.start_after(0s);
  loop_.post([&] { ++tasks; });
  EXPECT_TRUE(loop_.poll());
  EXPECT_TRUE(tasks == 1 && timers == 1);
  EXPECT_FALSE(loop_.poll());
}

TEST_F(EventLoopRun, RunOnceWaitsForTheFirstTimer) {
  std::vector<int> fired;
  gyre::timer late(loop_, [&] { fired.push_back(2); });
  gyre::timer early(loop_, [&] { fired.push_back(1); });
  late.start_after(2h);
  early.start_after(1h);
  EXPECT_TRUE(loop_.run_once());
  EXPECT_THAT(fired, testing::ElementsAre(1));
  EXPECT_TRUE(loop_.run_once());
  EXPECT_THAT(fired, testing::ElementsAre(1, 2));
}

TEST_F(EventLoopRun, RunOnceWaitsForATaskOfAnotherThread) {
  std::jthread producer;
  bool ran = false;
  virtual_time_.time.on_sleep(
      [&] { producer = std::jthread([&] { loop_.post([&] { ran = true; }); }); });
  EXPECT_TRUE(loop_.run_once());
  EXPECT_TRUE(ran);
}

TEST_F(EventLoopRun, RunOnceIsNotEndedByAWakeUpWithoutWork) {
  int sleeps = 0;
  virtual_time_.time.on_sleep([&] {
    if (++sleeps == 3) loop_.post([] {});
    virtual_time_.time.wake();
  });
  EXPECT_TRUE(loop_.run_once());
  EXPECT_EQ(sleeps, 3);
}

TEST_F(EventLoopRun, AnOverdueTimerFiresWithoutASleep) {
  int fired = 0;
  gyre::timer overdue(loop_, [&] {
    if (++fired < 3) overdue.start_after(0s);
  });
  overdue.start_after(0s);
  for (int i = 1; i <= 3; ++i) {
    EXPECT_TRUE(loop_.run_once());
    EXPECT_EQ(fired, i);
  }
  EXPECT_EQ(loop_.metrics().sleeps, 0u);
}

TEST_F(EventLoopRun, RunOnceDoesOneTurn) {
  int runs = 0;
  loop_.post([&] {
    ++runs;
    gyre::loop& loop = loop_;
    loop.post_after(0s, [&] { ++runs; });
  });
  EXPECT_TRUE(loop_.run_once());
  EXPECT_EQ(loop_.metrics().turns, 1u);
}

TEST_F(EventLoopRun, ABatchOfTasksIsATurn) {
  virtual_time_loop<> small({.batch = 10});
  int runs = 0;
  for (int i = 0; i < 25; ++i) small.loop.post([&] { ++runs; });
  EXPECT_TRUE(small.loop.poll());
  EXPECT_EQ(runs, 10);
  EXPECT_TRUE(small.loop.run_once());
  EXPECT_EQ(runs, 20);
  EXPECT_TRUE(small.loop.run_once());
  EXPECT_EQ(runs, 25);
}

TEST_F(EventLoopRun, ABatchOfZeroIsOne) {
  virtual_time_loop<> smallest({.batch = 0});
  int runs = 0;
  for (int i = 0; i < 2; ++i) smallest.loop.post([&] { ++runs; });
  EXPECT_TRUE(smallest.loop.poll());
  EXPECT_EQ(runs, 1);
}

TEST_F(EventLoopRun, RunForEndsWhenItsTimeHasPassed) {
  int ticks = 0;
  gyre::timer ticker(loop_, [&] { ++ticks; });
  ticker.start_every(10ms);
  const steady_time before = loop_.now();
  loop_.run_for(95ms);
  EXPECT_EQ(ticks, 9);
  EXPECT_EQ(loop_.now(), before + 95ms);
  EXPECT_FALSE(loop_.stopped());
}

TEST_F(EventLoopRun, RunUntilEndsAtItsDeadline) {
  const steady_time deadline = loop_.now() + 1min;
  loop_.run_until(deadline);
  EXPECT_EQ(loop_.now(), deadline);
}

TEST_F(EventLoopRun, RunForEndsThoughTasksNeverEnd) {
  struct endless : gyre::operation {
    explicit endless(virtual_time_loop<>& on) : operation(&run), virtual_time(on) {}
    static void run(operation& op) {
      auto& self = static_cast<endless&>(op);
      self.virtual_time.time.advance(1us);
      self.virtual_time.loop.post(self);
    }
    virtual_time_loop<>& virtual_time;
  } op(virtual_time_);
  loop_.post(op);
  const steady_time before = loop_.now();
  loop_.run_for(1ms);
  EXPECT_GE(loop_.now(), before + 1ms);
  EXPECT_LE(loop_.metrics().tasks_run, 1000u + gyre::loop_options{}.batch);
}

TEST_F(EventLoopRun, RunForWithoutTimeReturnsAtOnce) {
  loop_.post([] { FAIL() << "no time for it"; });
  loop_.run_for(0s);
  loop_.run_for(-1h);
  loop_.run_until(steady_time::min());
  EXPECT_EQ(loop_.metrics().turns, 0u);
}

TEST_F(EventLoopRun, RunForEverEndsWithStop) {
  loop_.post_after(100h, [&] { loop_.stop(); });
  loop_.run_for(std::chrono::nanoseconds::max());
  EXPECT_TRUE(loop_.stopped());
}

TEST_F(EventLoopRun, StopEndsRunForEarly) {
  const steady_time before = loop_.now();
  loop_.post_after(1s, [&] { loop_.stop(); });
  loop_.run_for(1h);
  EXPECT_LT(loop_.now(), before + 2s);
}

TEST_F(EventLoopRun, CurrentIsTheInnermostLoopOfTheThread) {
  virtual_time_loop<> inner;
  EXPECT_EQ(event_loop::current(), nullptr);
  EXPECT_FALSE(loop_.in_loop_thread());
  int checks = 0;
  inner.loop.post([&] {
    EXPECT_EQ(event_loop::current(), &inner.loop);
    EXPECT_TRUE(loop_.in_loop_thread()) << "the thread is in both";
    ++checks;
  });
  loop_.post([&] {
    EXPECT_EQ(event_loop::current(), &loop_);
    std::thread([&] {
      EXPECT_FALSE(loop_.in_loop_thread());
      EXPECT_EQ(event_loop::current(), nullptr);
    }).join();
    inner.loop.poll();
    EXPECT_TRUE(loop_.in_loop_thread());
    ++checks;
  });
  loop_.poll();
  EXPECT_EQ(event_loop::current(), nullptr);
  EXPECT_EQ(checks, 2);
}

TEST_F(EventLoopRun, TimersAreReadFromThePollersClock) {
  const steady_time before = loop_.now();
  virtual_time_.time.advance(5s);
  EXPECT_EQ(loop_.now(), before + 5s);
  EXPECT_EQ(loop_.deadline_after(1s), before + 6s);
  EXPECT_LE(loop_.deadline_after(-1s), before + 5s);
  EXPECT_LE(loop_.deadline_after(0s), before + 5s);
  EXPECT_EQ(loop_.deadline_after(std::chrono::nanoseconds::max()), steady_time::max());
}

TEST_F(EventLoopRun, FromItsOwnTaskIsRefused) {
  int refused = 0;
  loop_.post([&] {
    EXPECT_THROW(loop_.run(), std::logic_error);
    EXPECT_THROW(loop_.run_once(), std::logic_error);
    EXPECT_THROW(loop_.poll(), std::logic_error);
    EXPECT_THROW(loop_.run_for(1s), std::logic_error);
    EXPECT_THROW(loop_.run_until(loop_.now() + 1s), std::logic_error);
    EXPECT_TRUE(loop_.in_loop_thread());
    ++refused;
  });
  EXPECT_TRUE(loop_.poll());
  EXPECT_EQ(refused, 1);
}

// The message of the std::logic_error that `call` throws.
std::string refusal_of(auto call) {
  try {
    call();
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "no refusal";
}

TEST(EventLoopRunElsewhere, IsRefusedWhileAnotherThreadRunsTheLoop) {
  gyre::loop_thread owner;
  event_loop& loop = owner.loop();
  std::promise<void> running;
  loop.post([&] { running.set_value(); });
  running.get_future().wait();
  const auto message = testing::HasSubstr("while another thread runs it");
  EXPECT_THAT(refusal_of([&] { loop.run(); }), message);
  EXPECT_THAT(refusal_of([&] { loop.run_once(); }), message);
  EXPECT_THAT(refusal_of([&] { loop.poll(); }), message);
  EXPECT_THAT(refusal_of([&] { loop.run_for(1h); }), message);
  EXPECT_THAT(refusal_of([&] { loop.run_until(steady_time::max()); }), message);
  EXPECT_FALSE(loop.in_loop_thread());
  EXPECT_EQ(event_loop::current(), nullptr);

  std::promise<void> still_runs;
  loop.post([&] { still_runs.set_value(); });
  still_runs.get_future().wait();
}

TEST(EventLoopRunElsewhere, IsRefusedWhileATaskOfAnotherThreadsLoopRunsTheLoop) {
  gyre::loop_thread owner;
  gyre::loop inner;
  std::promise<void> running;
  owner.loop().post([&] {
    inner.post([&] { running.set_value(); });
    inner.run();
  });
  running.get_future().wait();
  EXPECT_THROW(inner.poll(), std::logic_error);
  inner.stop();
  owner.stop();
  owner.join();
  inner.restart();
  EXPECT_FALSE(inner.poll());
}

TEST(EventLoopRunElsewhere, ThreadsMayRunALoopInTurn) {
  gyre::loop loop;
  int runs = 0;
  for (int i = 0; i < 3; ++i) {
    loop.post([&] { ++runs; });
    std::thread([&] { loop.poll(); }).join();
  }
  EXPECT_EQ(runs, 3);
}

// The tasks count without atomics, so ThreadSanitizer sees a loop that two threads run.
TEST(EventLoopRunElsewhere, OneOfSeveralThreadsRunsTheLoop) {
  gyre::loop loop;
  constexpr int threads = 3;
  constexpr int turns = 2000;
  int tasks_run = 0;
  std::atomic<int> turns_run{0};
  std::atomic<int> refused{0};
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < threads; ++i) {
      callers.emplace_back([&] {
        for (int turn = 0; turn < turns; ++turn) {
          loop.post([&] { ++tasks_run; });
          try {
            loop.poll();
            ++turns_run;
          } catch (const std::logic_error&) {
            ++refused;
          }
        }
      });
    }
  }
  while (loop.poll()) {
  }
  EXPECT_EQ(tasks_run, threads * turns);
  EXPECT_EQ(turns_run + refused, threads * turns);
}

TEST_F(EventLoopRun, FromATaskOfALoopThatItsOwnTaskRunsIsRefused) {
  virtual_time_loop<> inner;
  int refused = 0;
  inner.loop.post([&] {
    EXPECT_THROW(loop_.poll(), std::logic_error);
    ++refused;
  });
  loop_.post([&] { inner.loop.poll(); });
  loop_.post([] {});
  EXPECT_TRUE(loop_.poll());
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(loop_.metrics().tasks_run, 2u);
}

}  // namespace
}  // namespace event_loop_run_test

// SPDX-License-Identifier: Apache-2.0
// Tests of exceptions that leave tasks, timers and watches.
#include <gyre/exec/loop.hpp>

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/fd_watch.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/testing/virtual_time_loop.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/eventfd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace event_loop_exception_test {
namespace {

using namespace std::chrono_literals;
using gyre::readiness;
using gyre::testing::virtual_time_loop;
using testing::ElementsAre;

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "unknown";
  }
}

// Records the messages of exceptions.
gyre::loop_options recording(std::vector<std::string>& log,
                             std::size_t limit = gyre::loop_options::unlimited) {
  return {.inbox_limit = limit,
          .on_exception = [&log](std::exception_ptr error) { log.push_back(message_of(error)); }};
}

gyre::loop_options rethrowing() {
  return {.on_exception = [](std::exception_ptr error) { std::rethrow_exception(error); }};
}

gyre::unique_fd always_readable() {
  return gyre::unique_fd(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
}

TEST(EventLoopException, TheHandlerReceivesItFromATaskAndTheRestRuns) {
  for (const std::size_t limit : {gyre::loop_options::unlimited, std::size_t{100}}) {
    std::vector<std::string> log;
    virtual_time_loop<> virtual_time(recording(log, limit));
    virtual_time.loop.post([] { throw std::runtime_error("first"); });
    virtual_time.loop.post([&] { log.push_back("between"); });
    virtual_time.loop.post([] { throw 42; });
    virtual_time.loop.post([&] { log.push_back("last"); });
    while (virtual_time.loop.poll()) continue;
    EXPECT_THAT(log, ElementsAre("first", "between", "unknown", "last"));
    EXPECT_EQ(virtual_time.loop.metrics().exceptions, 2u);
    EXPECT_EQ(virtual_time.loop.metrics().tasks_run, 4u);
  }
}

TEST(EventLoopException, ReachesTheHandlerOnTheLoopsThread) {
  gyre::event_loop* seen = nullptr;
  virtual_time_loop<> virtual_time(
      {.on_exception = [&](std::exception_ptr) { seen = gyre::event_loop::current(); }});
  virtual_time.loop.post([] { throw 1; });
  virtual_time.loop.poll();
  EXPECT_EQ(seen, &virtual_time.loop);
}

TEST(EventLoopException, DestroysTheCallableThatThrew) {
  std::vector<std::string> log;
  virtual_time_loop<> virtual_time(recording(log));
  const auto held = std::make_shared<int>();
  virtual_time.loop.post([held] { throw std::runtime_error("task"); });
  virtual_time.loop.post_after(0s, [held] { throw std::runtime_error("delayed"); });
  while (virtual_time.loop.poll()) continue;
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_THAT(log, ElementsAre("task", "delayed"));
}

TEST(EventLoopException, AThrowingTimerKeepsItsPeriodAndTheOtherTimersFire) {
  std::vector<std::string> log;
  virtual_time_loop<> virtual_time(recording(log));
  gyre::timer periodic(virtual_time.loop, [&] { throw std::runtime_error("periodic"); });
  gyre::timer once(virtual_time.loop, [&] { log.push_back("once"); });
  periodic.start_every(10ms);
  once.start_after(10ms);
  virtual_time.loop.run_for(35ms);
  EXPECT_THAT(log, ElementsAre("periodic", "once", "periodic", "periodic"));
  EXPECT_TRUE(periodic.active());
  EXPECT_EQ(virtual_time.loop.metrics().timers_fired, 4u);
}

TEST(EventLoopException, AThrowingWatchIsCountedAndTheOtherWatchesRun) {
  std::vector<std::string> log;
  gyre::loop loop(recording(log));
  const auto one = always_readable();
  const auto other = always_readable();
  gyre::fd_watch throwing(loop, one.get(), [](readiness) { throw std::runtime_error("watch"); });
  gyre::fd_watch quiet(loop, other.get(), [&](readiness) { log.push_back("quiet"); });
  throwing.start(readiness::readable);
  quiet.start(readiness::readable);
  while (log.size() < 4) ASSERT_TRUE(loop.poll());
  EXPECT_THAT(log, testing::IsSupersetOf({"watch", "quiet"}));
  EXPECT_EQ(loop.metrics().io_events, log.size());
}

TEST(EventLoopException, RunOnceReportsThatAThrowingWatchRan) {
  std::vector<std::string> log;
  gyre::loop loop(recording(log));
  const auto ready = always_readable();
  gyre::fd_watch throwing(loop, ready.get(), [&](readiness) {
    throwing.stop();
    throw std::runtime_error("watch");
  });
  throwing.start(readiness::readable);
  EXPECT_TRUE(loop.run_once());
  EXPECT_EQ(log.size(), 1u);
}

TEST(EventLoopException, ThatTheHandlerRethrowsLeavesRunAndTheLoopGoesOn) {
  virtual_time_loop<> virtual_time(rethrowing());
  gyre::loop& loop = virtual_time.loop;
  int ran = 0;
  for (int i = 0; i < 3; ++i) {
    loop.post([&] { ++ran; });
    loop.post([] { throw std::runtime_error("leaves run"); });
  }
  loop.post([&] { loop.stop(); });
  for (int i = 1; i <= 3; ++i) {
    EXPECT_THROW(loop.run(), std::runtime_error);
    EXPECT_EQ(ran, i);
    EXPECT_EQ(gyre::event_loop::current(), nullptr);
    EXPECT_FALSE(loop.stopped());
    EXPECT_EQ(loop.metrics().tasks_run, static_cast<std::uint64_t>(2 * i));
  }
  loop.run();
  EXPECT_EQ(loop.metrics().tasks_run, 7u);
  EXPECT_EQ(loop.metrics().exceptions, 3u);
}

TEST(EventLoopException, ThatTheHandlerRethrowsLeavesEveryWayToRun) {
  virtual_time_loop<> virtual_time(rethrowing());
  gyre::loop& loop = virtual_time.loop;
  const auto post = [&] { loop.post([] { throw std::runtime_error("task"); }); };
  post();
  EXPECT_THROW(loop.poll(), std::runtime_error);
  post();
  EXPECT_THROW(loop.run_once(), std::runtime_error);
  post();
  EXPECT_THROW(loop.run_for(1s), std::runtime_error);
  EXPECT_EQ(loop.metrics().tasks_pending, 0u);
}

TEST(EventLoopException, ThatTheHandlerRethrowsFromATimerKeepsTheCounts) {
  virtual_time_loop<> virtual_time(rethrowing());
  gyre::loop& loop = virtual_time.loop;
  gyre::timer throwing(loop, [] { throw std::runtime_error("timer"); });
  gyre::timer quiet(loop, [] {});
  quiet.start_after(1ms);
  throwing.start_after(1ms);
  EXPECT_THROW(loop.run(), std::runtime_error);
  EXPECT_EQ(loop.metrics().timers_fired, 2u);
  EXPECT_EQ(loop.metrics().timers_pending, 0u);
}

TEST(EventLoopException, ThatTheHandlerRethrowsFromAWatchKeepsTheRestForTheNextRun) {
  gyre::loop loop(rethrowing());
  const auto one = always_readable();
  const auto other = always_readable();
  int throws = 0;
  int calls = 0;
  gyre::fd_watch throwing(loop, one.get(), [&](readiness) {
    ++throws;
    throw std::runtime_error("watch");
  });
  gyre::fd_watch quiet(loop, other.get(), [&](readiness) { ++calls; });
  // Edge-triggered: a report that is lost does not come again.
  throwing.start(readiness::readable, gyre::trigger::edge);
  quiet.start(readiness::readable, gyre::trigger::edge);
  EXPECT_THROW(loop.run(), std::runtime_error);
  while (loop.poll()) continue;
  EXPECT_EQ(throws, 1);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(loop.metrics().io_events, 2u);
}

TEST(EventLoopException, TheHandlerMayStopTheLoop) {
  gyre::loop* stopped = nullptr;
  virtual_time_loop<> virtual_time({.on_exception = [&](std::exception_ptr) { stopped->stop(); }});
  stopped = &virtual_time.loop;
  virtual_time.loop.post([] { throw 1; });
  virtual_time.loop.post([] { FAIL() << "stays"; });
  virtual_time.loop.run();
  EXPECT_EQ(virtual_time.loop.metrics().tasks_pending, 1u);
}

class EventLoopExceptionDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(EventLoopExceptionDeathTest, TheDefaultHandlerSaysWhatItWasAndTerminates) {
  virtual_time_loop<> virtual_time;
  virtual_time.loop.post([] { throw std::runtime_error("out of luck"); });
  EXPECT_DEATH(virtual_time.loop.poll(), "gyre: an exception left a task of a loop: out of luck");
}

TEST_F(EventLoopExceptionDeathTest, TheDefaultHandlerTerminatesForUnknownTypesToo) {
  virtual_time_loop<> virtual_time;
  virtual_time.loop.post([] { throw 42; });
  EXPECT_DEATH(virtual_time.loop.poll(), "gyre: an exception of unknown type left a task");
}

}  // namespace
}  // namespace event_loop_exception_test

// SPDX-License-Identifier: Apache-2.0
#include <gyre/testing/manual_executor.hpp>

#include <gyre/task/schedule.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <thread>
#include <vector>

namespace manual_executor_test {
namespace {

using namespace std::chrono_literals;
using gyre::testing::manual_executor;

gyre::task<> note(std::vector<int>& log, int number) {
  log.push_back(number);
  co_return;
}

gyre::task<> note_twice(std::vector<int>& log, int number) {
  log.push_back(number);
  co_await gyre::yield();
  log.push_back(number);
}

gyre::task<> note_after(std::vector<int>& log, std::chrono::seconds delay) {
  co_await gyre::sleep_for(delay);
  log.push_back(static_cast<int>(delay.count()));
}

gyre::task<> fails() {
  throw std::runtime_error("expected");
  co_return;
}

TEST(ManualExecutor, RunsNothingBeforeItIsTold) {
  manual_executor executor;
  std::vector<int> log;
  gyre::spawn(executor, note(log, 1));
  EXPECT_EQ(executor.pending(), 1u);
  EXPECT_TRUE(log.empty());
  EXPECT_TRUE(executor.run_one());
  EXPECT_FALSE(executor.run_one());
  EXPECT_EQ(log, std::vector{1});
}

TEST(ManualExecutor, IsNotHereInASyncWaitOfAnOperation) {
  manual_executor executor;
  std::vector<bool> here;
  gyre::spawn(executor, [](manual_executor& own, std::vector<bool>& log) -> gyre::task<> {
    log.push_back(own.running_here());
    gyre::sync_wait([](manual_executor& outer, std::vector<bool>& seen) -> gyre::task<> {
      seen.push_back(outer.running_here());
      co_return;
    }(own, log));
    log.push_back(own.running_here());
    co_return;
  }(executor, here));
  executor.run_all();
  EXPECT_EQ(here, (std::vector{true, false, true}));
}

TEST(ManualExecutor, RunsOperationsInTheOrderOfTheirPosts) {
  manual_executor executor;
  std::vector<int> log;
  gyre::spawn(executor, note_twice(log, 1));
  gyre::spawn(executor, note_twice(log, 2));
  executor.run_all();
  EXPECT_EQ(log, (std::vector{1, 2, 1, 2}));
  EXPECT_EQ(executor.pending(), 0u);
}

TEST(ManualExecutor, ASeedDecidesTheOrder) {
  const auto order_of = [](std::uint64_t seed) {
    manual_executor executor(seed);
    std::vector<int> log;
    for (int i = 0; i < 10; ++i) gyre::spawn(executor, note(log, i));
    executor.run_all();
    return log;
  };
  EXPECT_EQ(order_of(7), order_of(7));
  EXPECT_NE(order_of(7), order_of(8));
  EXPECT_EQ(order_of(7).size(), 10u);
}

TEST(ManualExecutor, CountsPostsOfOtherThreads) {
  manual_executor executor;
  std::vector<int> log;
  std::thread([&] { gyre::spawn(executor, note(log, 1)); }).join();
  EXPECT_EQ(executor.posts(), 1u);
  executor.run_all();
  EXPECT_EQ(log, std::vector{1});
}

TEST(ManualExecutor, ATimerExpiresWhenItsTimeHasPassed) {
  manual_executor executor;
  std::vector<int> log;
  gyre::spawn(executor, note_after(log, 10s));
  executor.run_all();
  EXPECT_EQ(executor.timers_pending(), 1u);
  EXPECT_EQ(executor.advance(9s), 0u);
  EXPECT_TRUE(log.empty());
  EXPECT_EQ(executor.advance(1s), 1u);
  EXPECT_EQ(log, std::vector{10});
}

TEST(ManualExecutor, ExpireNextPassesToTheEarliestDeadlineAndRunsNoOperation) {
  manual_executor executor;
  std::vector<int> log;
  gyre::spawn(executor, note_after(log, 3600s));
  gyre::spawn(executor, note_after(log, 60s));
  executor.run_all();
  const gyre::steady_time begin = executor.now();
  EXPECT_TRUE(executor.expire_next());
  EXPECT_EQ(executor.now() - begin, 60s);
  executor.run_all();
  EXPECT_EQ(log, std::vector{60});
  EXPECT_TRUE(executor.expire_next());
  EXPECT_EQ(executor.now() - begin, 3600s);
  EXPECT_FALSE(executor.expire_next());
  executor.run_all();
  EXPECT_EQ(log, (std::vector{60, 3600}));
}

TEST(ManualExecutor, RunsHereOnlyWithinAnOperation) {
  manual_executor executor;
  EXPECT_FALSE(executor.running_here());
  bool within = false;
  gyre::spawn(executor, [](manual_executor& where, bool& noted) -> gyre::task<> {
    noted = where.running_here();
    co_return;
  }(executor, within));
  executor.run_all();
  EXPECT_TRUE(within);
  EXPECT_FALSE(executor.running_here());
}

TEST(ManualExecutor, AnExceptionOfACoroutineReachesItsSpawner) {
  manual_executor executor;
  bool caught = false;
  gyre::spawn(executor, fails(), {.on_error = [&](const std::exception_ptr&) { caught = true; }});
  executor.run_all();
  EXPECT_TRUE(caught);
}

}  // namespace
}  // namespace manual_executor_test

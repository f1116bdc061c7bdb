// SPDX-License-Identifier: Apache-2.0
// Tests of when_all() on an executor with work stealing: the threads of the children, and the join.
#include <gyre/task/schedule.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/when_all.hpp>
#include <tests/support/forking_executor.hpp>
#include <tests/support/thread_executor.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace when_all_fork_test {
namespace {

using gyre::task;
using gyre::test::forking_executor;
using gyre::test::stealing;
using gyre::test::this_thread_id;

struct run_record {
  std::vector<int> order;
  std::vector<std::thread::id> threads;
};

task<int> recorded(run_record& runs, int value) {
  runs.order.push_back(value);
  runs.threads.push_back(this_thread_id());
  co_return value;
}

// Lets another thread run the children after this one, to their ends or first waits.
task<int> handing_over(forking_executor& executor, run_record& runs, int value) {
  runs.order.push_back(value);
  runs.threads.push_back(this_thread_id());
  EXPECT_TRUE(executor.steal_now());
  co_return value;
}

task<int> later(int value, int yields) {
  for (int i = 0; i < yields; ++i) co_await gyre::yield();
  co_return value;
}

task<int> later_then_handing_over(forking_executor& executor, int value) {
  co_await gyre::yield();
  executor.steal_now();
  co_return value;
}

int sum_of(const std::vector<int>& values) {
  int sum = 0;
  for (const int each : values) sum += each;
  return sum;
}

TEST(WhenAllForks, WithoutThievesOneThreadRunsAllInTheirOrder) {
  forking_executor executor(2, stealing::on_demand);
  run_record runs;
  const auto [a, b, c] = gyre::sync_wait(
      gyre::on(executor, gyre::when_all(recorded(runs, 1), recorded(runs, 2), recorded(runs, 3))));
  EXPECT_EQ(a + 10 * b + 100 * c, 321);
  EXPECT_EQ(runs.order, (std::vector{1, 2, 3}));
  EXPECT_EQ(runs.threads[0], runs.threads[2]);
  EXPECT_EQ(executor.offers(), 2U);  // the last child leaves nothing to offer
  EXPECT_EQ(executor.steals(), 0U);
}

TEST(WhenAllForks, AThiefGoesOnWithTheNextChild) {
  forking_executor executor(2, stealing::on_demand);
  run_record runs;
  std::vector<task<int>> tasks;
  tasks.push_back(recorded(runs, 0));
  tasks.push_back(handing_over(executor, runs, 1));
  tasks.push_back(recorded(runs, 2));
  tasks.push_back(recorded(runs, 3));
  const std::vector<int> results =
      gyre::sync_wait(gyre::on(executor, gyre::when_all(std::move(tasks))));
  EXPECT_EQ(results, (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(runs.order, (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(runs.threads[0], runs.threads[1]);
  EXPECT_NE(runs.threads[1], runs.threads[2]);
  EXPECT_EQ(runs.threads[2], runs.threads[3]);
}

TEST(WhenAllForks, TheRestMayChangeHandsMoreThanOnce) {
  forking_executor executor(3, stealing::on_demand);
  run_record runs;
  const auto [a, b, c] = gyre::sync_wait(
      gyre::on(executor, gyre::when_all(handing_over(executor, runs, 1),
                                        handing_over(executor, runs, 2), recorded(runs, 3))));
  EXPECT_EQ(a + b + c, 6);
  EXPECT_EQ(runs.order, (std::vector{1, 2, 3}));
  for (std::size_t i = 1; i < 3; ++i) EXPECT_NE(runs.threads[i - 1], runs.threads[i]);
}

TEST(WhenAllForks, AThiefLeavesTheLaterHalfToOthers) {
  forking_executor executor(3, stealing::on_demand);
  run_record runs;
  const auto [a, b, c, d] = gyre::sync_wait(gyre::on(
      executor, gyre::when_all(handing_over(executor, runs, 1), handing_over(executor, runs, 2),
                               recorded(runs, 3), recorded(runs, 4))));
  EXPECT_EQ(a + b + c + d, 10);
  EXPECT_EQ(runs.order, (std::vector{1, 2, 4, 3}));
  EXPECT_NE(runs.threads[0], runs.threads[1]);
  EXPECT_NE(runs.threads[1], runs.threads[2]);  // 4 was stolen again
  EXPECT_EQ(runs.threads[1], runs.threads[3]);  // 3 was not
}

task<int> meeting_a_thief_in_vain(forking_executor& executor, run_record& runs, int value) {
  runs.order.push_back(value);
  runs.threads.push_back(this_thread_id());
  executor.come_in_vain();
  co_return value;
}

TEST(WhenAllForks, AfterAThiefHasComeInVainTheLaterHalfIsLeftForTheNext) {
  forking_executor executor(2, stealing::on_demand);
  run_record runs;
  const auto [a, b, c, d] =
      gyre::sync_wait(gyre::on(executor, gyre::when_all(meeting_a_thief_in_vain(executor, runs, 1),
                                                        handing_over(executor, runs, 2),
                                                        recorded(runs, 3), recorded(runs, 4))));
  EXPECT_EQ(a + b + c + d, 10);
  EXPECT_EQ(runs.order, (std::vector{1, 2, 4, 3}));
  EXPECT_NE(runs.threads[1], runs.threads[2]);  // 4 was stolen
  EXPECT_EQ(runs.threads[1], runs.threads[3]);  // 3 was not
}

// Thieves take halves of halves, but no child twice.
TEST(WhenAllForks, ManyShortChildrenRunOnceEach) {
  forking_executor executor(3);
  std::vector<task<int>> tasks;
  for (int i = 0; i < 5000; ++i) tasks.push_back(later(i, i % 100 == 0 ? 1 : 0));
  const std::vector<int> results =
      gyre::sync_wait(gyre::on(executor, gyre::when_all(std::move(tasks))));
  ASSERT_EQ(results.size(), 5000U);
  for (int i = 0; i < 5000; ++i) EXPECT_EQ(results[static_cast<std::size_t>(i)], i);
}

TEST(WhenAllForks, GoesOnWhereTheLastChildFinished) {
  forking_executor executor(2, stealing::on_demand);
  run_record runs;
  const auto parent = [](forking_executor& forks, run_record& seen) -> task<bool> {
    const auto [a, b] = co_await gyre::when_all(handing_over(forks, seen, 1), recorded(seen, 2));
    static_cast<void>(a + b);
    co_return forks.running_here() && this_thread_id() == seen.threads[0];
  };
  EXPECT_TRUE(gyre::sync_wait(gyre::on(executor, parent(executor, runs))));
}

TEST(WhenAllForks, ChildrenThatWaitFinishOnAnyThread) {
  forking_executor executor(2, stealing::on_demand);
  run_record runs;
  const auto [a, b, c, d] = gyre::sync_wait(
      gyre::on(executor, gyre::when_all(later(1, 3), handing_over(executor, runs, 2), later(3, 1),
                                        later_then_handing_over(executor, 4))));
  EXPECT_EQ(a + 10 * b + 100 * c + 1000 * d, 4321);
}

struct nothing final : gyre::operation {
  nothing() : operation([](operation& self) { ++static_cast<nothing&>(self).runs; }) {}
  int runs = 0;
};

// Leaves an offer that is newer than that of the remaining children.
task<int> burying(forking_executor& executor, nothing& newer) {
  EXPECT_TRUE(executor.push(newer));
  co_return 1;
}

TEST(WhenAllForks, ARestThatLiesBelowSomethingNewerRunsAfterIt) {
  forking_executor executor(1, stealing::on_demand);
  run_record runs;
  nothing newer;
  const auto [a, b, c] = gyre::sync_wait(gyre::on(
      executor, gyre::when_all(burying(executor, newer), recorded(runs, 2), recorded(runs, 3))));
  EXPECT_EQ(a + b + c, 6);
  EXPECT_EQ(newer.runs, 1);
}

// Runs two offered operations on its own thread, the first of which is the remaining children.
task<int> blocking(forking_executor& executor) {
  EXPECT_TRUE(executor.run_one());
  EXPECT_TRUE(executor.run_one());
  co_return 0;
}

TEST(WhenAllForks, AChildThatBlocksMayRunTheRestItself) {
  forking_executor executor(1, stealing::on_demand);
  run_record runs;
  nothing newer;
  const auto [a, b, c, d] = gyre::sync_wait(
      gyre::on(executor, gyre::when_all(blocking(executor), burying(executor, newer),
                                        recorded(runs, 2), recorded(runs, 3))));
  EXPECT_EQ(a + b + c + d, 6);
  EXPECT_EQ(newer.runs, 1);
  EXPECT_EQ(runs.order, (std::vector{2, 3}));
}

task<int> failing(const char* what) {
  throw std::runtime_error(what);
  co_return 0;
}

task<int> failing_after_the_rest(forking_executor& executor, bool& stopped) {
  const gyre::inplace_stop_token stop = co_await gyre::current_stop_token();
  EXPECT_TRUE(executor.steal_now());
  stopped = stop.stop_requested();
  throw std::runtime_error("late");
}

TEST(WhenAllForks, AnErrorOnAThiefStopsTheOthersAndComesFirst) {
  forking_executor executor(2, stealing::on_demand);
  bool stopped = false;
  try {
    static_cast<void>(gyre::sync_wait(gyre::on(
        executor, gyre::when_all(failing_after_the_rest(executor, stopped), failing("early")))));
    FAIL() << "did not throw";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "early");
  }
  EXPECT_TRUE(stopped);
}

task<int> handing_over_until_stopped(forking_executor& executor, bool& stopped) {
  const gyre::inplace_stop_token stop = co_await gyre::current_stop_token();
  executor.steal_now();
  stopped = stop.stop_requested();
  co_return 0;
}

TEST(WhenAllForks, AnEmptyTaskOnAThiefIsAnErrorThatStopsTheOthers) {
  forking_executor executor(2, stealing::on_demand);
  bool stopped = false;
  std::vector<task<int>> tasks;
  tasks.push_back(handing_over_until_stopped(executor, stopped));
  tasks.push_back(task<int>());
  EXPECT_THROW(
      static_cast<void>(gyre::sync_wait(gyre::on(executor, gyre::when_all(std::move(tasks))))),
      std::logic_error);
  EXPECT_TRUE(stopped);
}

task<int> moving_to(gyre::executor& there, int value) {
  co_await gyre::resume_on(there);
  co_return value;
}

TEST(WhenAllForks, AChildsOwnExecutorIsNotTheNextOnes) {
  forking_executor executor(2, stealing::on_demand);
  gyre::test::thread_executor elsewhere;
  const auto where = []() -> task<gyre::executor*> {
    gyre::executor& here = co_await gyre::current_executor();
    co_return &here;
  };
  const auto [a, b, c] = gyre::sync_wait(
      gyre::on(executor, gyre::when_all(where(), moving_to(elsewhere, 2), where())));
  EXPECT_EQ(a, &executor);
  EXPECT_EQ(b, 2);
  EXPECT_EQ(c, &executor);
}

// Blocks in a join on an executor of its own, then joins on its own executor again.
task<int> joins_twice(run_record& runs) {
  const auto [a, b] = gyre::sync_wait(gyre::when_all(recorded(runs, 1), recorded(runs, 2)));
  const auto [c, d] = co_await gyre::when_all(recorded(runs, 3), recorded(runs, 4));
  co_return a + b + c + d;
}

TEST(WhenAllForks, AJoinWithinAChildForksOnItsOwnExecutor) {
  forking_executor executor(2, stealing::on_demand);
  run_record runs;
  const auto [sum, last] =
      gyre::sync_wait(gyre::on(executor, gyre::when_all(joins_twice(runs), recorded(runs, 5))));
  EXPECT_EQ(sum + last, 15);
  EXPECT_EQ(runs.order, (std::vector{1, 2, 3, 4, 5}));
  EXPECT_EQ(executor.offers(), 2U);  // one for each join that is not sync_wait()'s
}

TEST(WhenAllForks, DoesNotForkForThreadsOfOthers) {
  forking_executor executor(1);
  run_record runs;
  const auto [a, b] = gyre::sync_wait(gyre::when_all(recorded(runs, 1), recorded(runs, 2)));
  EXPECT_EQ(a + b, 3);
  EXPECT_EQ(executor.offers(), 0U);
}

task<int> fibonacci(int n) {
  if (n < 2) co_return n;
  const auto [a, b] = co_await gyre::when_all(fibonacci(n - 1), fibonacci(n - 2));
  co_return a + b;
}

TEST(WhenAllForks, ComputesOnThreadsThatStealWhatTheyCan) {
  forking_executor executor(3);
  for (int round = 0; round < 5; ++round) {
    EXPECT_EQ(gyre::sync_wait(gyre::on(executor, fibonacci(12))), 144);
  }
}

// Every second generation waits.
task<int> wide_tree(int depth) {
  if (depth == 0) co_return 1;
  std::vector<task<int>> children;
  for (int i = 0; i < 5; ++i) children.push_back(wide_tree(depth - 1));
  if (depth % 2 == 0) co_await gyre::yield();
  const std::vector<int> sums = co_await gyre::when_all(std::move(children));
  co_return sum_of(sums);
}

TEST(WhenAllForks, ComesTogetherWhereChildrenWaitAndThreadsSteal) {
  forking_executor executor(3);
  for (int round = 0; round < 5; ++round) {
    EXPECT_EQ(gyre::sync_wait(gyre::on(executor, wide_tree(4))), 625);
  }
}

task<int> failing_tree(int depth) {
  if (depth == 0) throw std::runtime_error("leaf");
  if (depth == 2) co_await gyre::yield();
  const auto [a, b, c] = co_await gyre::when_all(failing_tree(depth - 1), later(1, depth % 3),
                                                 failing_tree(depth - 1));
  co_return a + b + c;
}

TEST(WhenAllForks, ErrorsOfSeveralThreadsBecomeOne) {
  forking_executor executor(3);
  for (int round = 0; round < 20; ++round) {
    EXPECT_THROW(static_cast<void>(gyre::sync_wait(gyre::on(executor, failing_tree(5)))),
                 std::runtime_error);
  }
}

}  // namespace
}  // namespace when_all_fork_test

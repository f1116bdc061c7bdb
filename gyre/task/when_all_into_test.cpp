// SPDX-License-Identifier: Apache-2.0
// Tests of when_all_into(): tasks that are made one by one, and whose results go to a span.
#include <gyre/task/context.hpp>
#include <gyre/task/finally.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/when_all_test_support.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <tests/support/forking_executor.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace when_all_into_test {
namespace {

using gyre::task;
using gyre::test::failing;
using gyre::test::forking_executor;
using gyre::test::patient;
using gyre::test::stealing;

task<int> number(std::size_t value, int yields) {
  for (int i = 0; i < yields; ++i) co_await gyre::yield();
  co_return static_cast<int>(value);
}

task<std::string> word(std::size_t value, int yields) {
  for (int i = 0; i < yields; ++i) co_await gyre::yield();
  co_return "a word too long for the string itself: " + std::to_string(value);
}

// The message of the std::runtime_error that `work` throws.
template <class Work>
std::string error_of(Work work) {
  try {
    gyre::sync_wait(std::move(work));
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "none";
}

TEST(WhenAllInto, PutsResultsInTheirPlacesWhetherTasksWaitOrNot) {
  std::array<int, 5> results{};
  gyre::sync_wait(gyre::when_all_into(
      std::span(results), [](std::size_t i) { return number(10 * i, i % 2 == 0 ? 0 : 3); }));
  EXPECT_EQ(results, (std::array{0, 10, 20, 30, 40}));
}

TEST(WhenAllInto, MovesResultsThatHaveDestructors) {
  std::array<std::string, 4> results;
  gyre::sync_wait(gyre::when_all_into(std::span(results),
                                      [](std::size_t i) { return word(i, i % 2 == 0 ? 0 : 2); }));
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i], "a word too long for the string itself: " + std::to_string(i));
  }
}

TEST(WhenAllInto, MakesNothingForAnEmptySpan) {
  int made = 0;
  gyre::sync_wait(gyre::when_all_into(std::span<int>(), [&made](std::size_t i) {
    ++made;
    return number(i, 0);
  }));
  EXPECT_EQ(made, 0);
}

task<int> noted(std::vector<std::string>& log, std::size_t i) {
  log.push_back("run " + std::to_string(i));
  co_return 0;
}

TEST(WhenAllInto, MakesEachTaskWhenItStarts) {
  std::vector<std::string> log;
  std::array<int, 2> results{};
  gyre::sync_wait(gyre::when_all_into(std::span(results), [&log](std::size_t i) {
    log.push_back("make " + std::to_string(i));
    return noted(log, i);
  }));
  EXPECT_EQ(log, (std::vector<std::string>{"make 0", "run 0", "make 1", "run 1"}));
}

TEST(WhenAllInto, TakesOtherAwaitables) {
  std::array<int, 3> results{};
  gyre::sync_wait(gyre::when_all_into(std::span(results), [](std::size_t i) {
    return gyre::finally(number(i, 1), [] { return gyre::yield(); });
  }));
  EXPECT_EQ(results, (std::array{0, 1, 2}));
}

TEST(WhenAllInto, KeepsTheErrorOfATaskThatFailedAtOnceWhileOthersFollow) {
  std::array<int, 4> results{-1, -1, -1, -1};
  EXPECT_EQ(error_of(gyre::when_all_into(
                std::span(results),
                [](std::size_t i) { return i == 1 ? failing("first", 0) : number(i, 0); })),
            "first");
  EXPECT_EQ(results, (std::array{0, -1, 2, 3}));
}

TEST(WhenAllInto, AnErrorStopsTheOthersAndTheFirstIsThrown) {
  std::array<int, 4> results{};
  int stopped = 0;
  EXPECT_EQ(error_of(gyre::when_all_into(std::span(results),
                                         [&stopped](std::size_t i) {
                                           if (i == 1) return failing("first", 1);
                                           if (i == 2) return failing("second", 2);
                                           return patient(stopped);
                                         })),
            "first");
  EXPECT_EQ(stopped, 2);
}

TEST(WhenAllInto, AnErrorOfMakeEndsTheLoopAndStopsTheOthers) {
  std::array<int, 4> results{};
  int stopped = 0;
  std::size_t last = 0;
  EXPECT_EQ(error_of(gyre::when_all_into(std::span(results),
                                         [&](std::size_t i) {
                                           last = i;
                                           if (i == 2) throw std::runtime_error("not made");
                                           return patient(stopped);
                                         })),
            "not made");
  EXPECT_EQ(last, 2U);
  EXPECT_EQ(stopped, 2);
}

TEST(WhenAllInto, AnEmptyTaskIsAnError) {
  std::array<int, 2> results{};
  EXPECT_THROW(gyre::sync_wait(gyre::when_all_into(std::span(results),
                                                   [](std::size_t) { return task<int>(); })),
               std::logic_error);
}

task<int> holding(std::shared_ptr<int> held, int yields) {
  for (int i = 0; i < yields; ++i) co_await gyre::yield();
  co_return *held;
}

// Waits for something that does not come.
struct never {
  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  static constexpr void await_suspend(std::coroutine_handle<>) noexcept {}
  static constexpr void await_resume() noexcept {}
};
task<int> waiting(std::shared_ptr<int> held) {
  co_await never();
  co_return *held;
}

struct started final : gyre::task_context {
  explicit started(gyre::executor& executor) {
    where = &executor;
    finished = [](gyre::task_context&) noexcept -> std::coroutine_handle<> {
      return std::noop_coroutine();
    };
  }
};

task<> parent_of(const std::shared_ptr<int>& held, std::span<int> results) {
  const auto child = [&held](std::size_t i) { return i == 1 ? holding(held, 0) : waiting(held); };
  co_await gyre::when_all_into(results, child);
}

TEST(WhenAllInto, MayBeDestroyedWhileTasksWait) {
  const auto held = std::make_shared<int>(7);
  std::array<int, 3> results{};
  {
    gyre::testing::manual_executor executor;
    started context(executor);
    task<> parent = parent_of(held, results);
    gyre::detail::task_access::state(parent).start(context);
    EXPECT_EQ(results[1], 7);
    EXPECT_GE(held.use_count(), 3) << "two tasks wait";
  }
  EXPECT_EQ(held.use_count(), 1);
}

// Lets another thread go on with the loop.
task<int> handing_over(forking_executor& executor, std::thread::id& here) {
  here = std::this_thread::get_id();
  EXPECT_TRUE(executor.steal_now());
  co_return 1;
}
task<int> noting_thread(std::thread::id& here) {
  here = std::this_thread::get_id();
  co_return 2;
}

TEST(WhenAllInto, AThiefMakesTheNextTask) {
  forking_executor executor(2, stealing::on_demand);
  std::array<int, 2> results{};
  std::array<std::thread::id, 2> made_by;
  std::array<std::thread::id, 2> run_by;
  gyre::sync_wait(gyre::on(executor, gyre::when_all_into(std::span(results), [&](std::size_t i) {
                             made_by[i] = std::this_thread::get_id();
                             return i == 0 ? handing_over(executor, run_by[i])
                                           : noting_thread(run_by[i]);
                           })));
  EXPECT_EQ(results, (std::array{1, 2}));
  EXPECT_EQ(made_by, run_by);
  EXPECT_NE(made_by[0], made_by[1]);
}

TEST(WhenAllInto, ManyTasksOnSeveralThreadsAreMadeOnceEach) {
  forking_executor executor(3);
  std::vector<int> results(5000, -1);
  std::vector<std::atomic<int>> made(results.size());
  gyre::sync_wait(gyre::on(executor, gyre::when_all_into(std::span(results), [&](std::size_t i) {
                             ++made[i];
                             return number(i, i % 100 == 0 ? 1 : 0);
                           })));
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i], static_cast<int>(i));
    EXPECT_EQ(made[i], 1);
  }
}

task<int> wide_tree(int depth) {
  if (depth == 0) co_return 1;
  if (depth % 2 == 0) co_await gyre::yield();
  std::array<int, 5> sums{};
  const auto child = [depth](std::size_t) { return wide_tree(depth - 1); };
  co_await gyre::when_all_into(std::span(sums), child);
  int sum = 0;
  for (const int each : sums) sum += each;
  co_return sum;
}

TEST(WhenAllInto, ComesTogetherWhereChildrenWaitAndThreadsSteal) {
  forking_executor executor(3);
  for (int round = 0; round < 5; ++round) {
    EXPECT_EQ(gyre::sync_wait(gyre::on(executor, wide_tree(4))), 625);
  }
}

TEST(WhenAllInto, ErrorsOfSeveralThreadsBecomeOne) {
  forking_executor executor(3);
  for (int round = 0; round < 20; ++round) {
    std::array<int, 40> results{};
    EXPECT_EQ(error_of(gyre::on(executor, gyre::when_all_into(std::span(results),
                                                              [](std::size_t i) {
                                                                return i % 7 == 6
                                                                           ? failing("one",
                                                                                     i % 2 == 0)
                                                                           : number(i, i % 3 == 0);
                                                              }))),
              "one");
  }
}

}  // namespace
}  // namespace when_all_into_test

// SPDX-License-Identifier: Apache-2.0
// Tests of fork(): the thread and the time of the child's start, its context, errors, stops, and
// the order of forks and awaits.
#include <gyre/task/fork.hpp>

#include <gyre/task/finally.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/stop_when.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task_local.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>
#include <tests/support/forking_executor.hpp>
#include <tests/support/forking_tree.hpp>
#include <tests/support/thread_executor.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace fork_test {
namespace {

using namespace std::chrono_literals;
using gyre::sync_wait;
using gyre::task;
using gyre::test::forking_executor;
using gyre::test::stealing;
using gyre::test::this_thread_id;
using gyre::testing::manual_executor;
using gyre::testing::run_in_virtual_time;

task<int> noted(std::vector<int>& order, int value) {
  order.push_back(value);
  co_return value;
}

task<int> after(std::vector<int>& order, int value, std::chrono::milliseconds time) {
  order.push_back(-value);
  co_await gyre::sleep_for(time);
  order.push_back(value);
  co_return value;
}

task<int> failing(const char* what) {
  throw std::runtime_error(what);
  co_return 0;
}

// Without other threads.

TEST(Fork, WithoutThievesTheChildStartsAtTheFork) {
  std::vector<int> order;
  const auto parent = [](std::vector<int>& seen) -> task<int> {
    auto child = co_await gyre::fork(noted(seen, 1));
    seen.push_back(2);
    const int result = co_await std::move(child);
    seen.push_back(3);
    co_return result;
  };
  EXPECT_EQ(sync_wait(parent(order)), 1);
  EXPECT_EQ(order, (std::vector{1, 2, 3}));
}

TEST(Fork, ChildrenWaitBesideTheirParentAndAreAwaitedInAnyOrder) {
  manual_executor executor;
  std::vector<int> order;
  const auto parent = [](std::vector<int>& seen) -> task<int> {
    auto first = co_await gyre::fork(after(seen, 1, 30ms));
    auto second = co_await gyre::fork(after(seen, 2, 10ms));
    auto third = co_await gyre::fork(after(seen, 3, 20ms));
    const int a = co_await std::move(first);
    seen.push_back(10);
    const int c = co_await std::move(third);
    const int b = co_await std::move(second);
    co_return a + 10 * b + 100 * c;
  };
  EXPECT_EQ(run_in_virtual_time(executor, parent(order)), 321);
  EXPECT_EQ(order, (std::vector{-1, -2, -3, 2, 3, 1, 10}));
}

TEST(Fork, GivesValuesReferencesAndNothing) {
  const auto parent = []() -> task<int> {
    int number = 1;
    auto nothing = co_await gyre::fork([](int& to) -> task<> {
      ++to;
      co_return;
    }(number));
    auto reference = co_await gyre::fork([](int& to) -> task<int&> { co_return to; }(number));
    auto pointer = co_await gyre::fork([]() -> task<std::unique_ptr<int>> { co_return nullptr; }());
    co_await std::move(nothing);
    int& same = co_await std::move(reference);
    same += 10;
    const std::unique_ptr<int> none = co_await std::move(pointer);
    co_return none == nullptr ? number : 0;
  };
  EXPECT_EQ(sync_wait(parent()), 12);
}

TEST(Fork, TakesAnyAwaitable) {
  manual_executor executor;
  const auto parent = []() -> task<> {
    auto pause = co_await gyre::fork(gyre::sleep_for(1h));
    co_await gyre::sleep_for(30min);
    co_await std::move(pause);
  };
  run_in_virtual_time(executor, parent());
  EXPECT_LT(executor.now() - gyre::steady_time{}, 3h);
}

TEST(Fork, AnErrorIsThrownAtTheAwait) {
  const auto parent = []() -> task<std::string> {
    auto child = co_await gyre::fork(failing("child"));
    std::string caught = "nothing yet";
    try {
      static_cast<void>(co_await std::move(child));
    } catch (const std::runtime_error& error) {
      caught = error.what();
    }
    co_return caught;
  };
  EXPECT_EQ(sync_wait(parent()), "child");
}

TEST(Fork, AnEmptyTaskAndASecondAwaitAreErrors) {
  const auto forks_nothing = []() -> task<int> {
    auto child = co_await gyre::fork(task<int>());
    co_return co_await std::move(child);
  };
  EXPECT_THROW(sync_wait(forks_nothing()), std::logic_error);
  const auto awaits_twice = []() -> task<int> {
    std::vector<int> order;
    auto child = co_await gyre::fork(noted(order, 1));
    EXPECT_EQ(co_await std::move(child), 1);
    co_return co_await std::move(child);  // NOLINT(bugprone-use-after-move): this is the test
  };
  EXPECT_THROW(sync_wait(awaits_twice()), std::logic_error);
}

// Two children of one parent wait for one handle.
template <class Wait>
task<int> awaited_by_two(Wait wait) {
  std::vector<int> order;
  auto child = co_await gyre::fork(after(order, 1, 10ms));
  const auto outcomes = co_await gyre::when_all_ready(wait(child), wait(child));
  EXPECT_TRUE(std::get<0>(outcomes).has_value());
  EXPECT_FALSE(std::get<1>(outcomes).has_value());
  if (!std::get<1>(outcomes)) {
    EXPECT_THROW(std::rethrow_exception(std::get<1>(outcomes).error()), std::logic_error);
  }
  co_return order.back();
}

TEST(Fork, AwaitedWhileAnotherCoroutineWaitsIsAnError) {
  manual_executor executor;
  EXPECT_EQ(run_in_virtual_time(executor, awaited_by_two([](auto& child) -> task<> {
                                  static_cast<void>(co_await std::move(child));
                                })),
            1);
  EXPECT_EQ(run_in_virtual_time(
                executor, awaited_by_two([](auto& child) -> task<> { co_await child.join(); })),
            1);
}

TEST(Fork, JoinWaitsAndLeavesTheResult) {
  manual_executor executor;
  std::vector<int> order;
  const auto parent = [](std::vector<int>& seen) -> task<int> {
    auto child = co_await gyre::fork(after(seen, 1, 10ms));
    co_await child.join();
    seen.push_back(2);
    co_await child.join();
    co_return co_await std::move(child);
  };
  EXPECT_EQ(run_in_virtual_time(executor, parent(order)), 1);
  EXPECT_EQ(order, (std::vector{-1, 1, 2}));
}

TEST(Fork, JoinedByFinallyTheHandleSurvivesAnErrorBeforeItsAwait) {
  manual_executor executor;
  std::vector<int> order;
  const auto parent = [](std::vector<int>& seen) -> task<int> {
    auto child = co_await gyre::fork(after(seen, 1, 1h));
    const auto stop_child = [&child] {
      child.request_stop();
      return child.join();
    };
    const int right = co_await gyre::finally(failing("right"), stop_child);
    co_return right + co_await std::move(child);
  };
  EXPECT_THROW(run_in_virtual_time(executor, parent(order)), std::runtime_error);
  EXPECT_EQ(order, std::vector{-1});  // stopped
}

TEST(Fork, AnEndedChildMayBeDropped) {
  const auto parent = []() -> task<> {
    std::vector<int> order;
    const auto child = co_await gyre::fork(noted(order, 1));
    const auto other = co_await gyre::fork(failing("dropped"));
  };
  sync_wait(parent());
}

TEST(Fork, DestroyedWhileItsChildRunsEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        manual_executor executor;
        std::vector<int> order;
        const auto parent = [](std::vector<int>& seen) -> task<> {
          const auto child = co_await gyre::fork(after(seen, 1, 1h));
        };
        gyre::spawn(executor, parent(order));
        executor.run_all();
      },
      "handle of a fork.. was destroyed before its child had ended");
}

// Contexts.

TEST(Fork, AStopOfTheCoroutineStopsTheChildAndTheWait) {
  manual_executor executor;
  gyre::inplace_stop_source stop;
  std::vector<int> order;
  const auto parent = [](std::vector<int>& seen) -> task<> {
    auto child = co_await gyre::fork(after(seen, 1, 1h));
    bool cancelled = false;
    try {
      static_cast<void>(co_await std::move(child));
    } catch (const gyre::operation_cancelled&) {
      cancelled = true;
    }
    seen.push_back(cancelled ? 2 : 3);
  };
  gyre::spawn(executor, parent(order), {.stop = stop.get_token()});
  executor.run_all();
  stop.request_stop();
  executor.run_all();
  EXPECT_EQ(order, (std::vector{-1, 2}));
}

TEST(Fork, AWaitWithATimeLimitStopsTheChild) {
  manual_executor executor;
  const auto parent = []() -> task<std::error_code> {
    std::vector<int> order;
    auto child = co_await gyre::fork(after(order, 1, 1h));
    const auto wait = [](auto& awaited) -> task<> {
      static_cast<void>(co_await std::move(awaited));
    };
    std::error_code code;
    try {
      co_await gyre::with_timeout(wait(child), 20ms);
    } catch (const std::system_error& error) {
      code = error.code();
    }
    EXPECT_EQ(order, std::vector{-1});
    co_return code;
  };
  EXPECT_EQ(run_in_virtual_time(executor, parent()), std::errc::timed_out);
}

TEST(Fork, AWaiterThatHasBeenStoppedStopsTheChild) {
  manual_executor executor;
  const auto parent = []() -> task<int> {
    std::vector<int> order;
    auto child = co_await gyre::fork(after(order, 1, 1h));
    gyre::inplace_stop_source stop;
    stop.request_stop();
    co_await gyre::stop_when(child.join(), stop.get_token());
    co_return order.back();
  };
  EXPECT_EQ(run_in_virtual_time(executor, parent()), -1);
}

TEST(Fork, AChildThatWasAskedToStopAloneGivesAnError) {
  manual_executor executor;
  const auto parent = []() -> task<std::error_code> {
    std::vector<int> order;
    auto child = co_await gyre::fork(after(order, 1, 1h));
    EXPECT_TRUE(child.request_stop());
    EXPECT_FALSE(child.request_stop());
    std::error_code code;
    try {
      static_cast<void>(co_await std::move(child));
    } catch (const std::system_error& error) {
      code = error.code();
    }
    co_await gyre::sleep_for(1ms);  // the coroutine itself continues
    co_return code;
  };
  EXPECT_EQ(run_in_virtual_time(executor, parent()), std::errc::operation_canceled);
}

TEST(Fork, TheChildHasTheLocalsOfItsParent) {
  static const gyre::task_local<int> number;
  const auto child = []() -> task<int> {
    const int bound = co_await number.get();
    co_return bound;
  };
  const auto parent = [](auto makes_child) -> task<int> {
    auto handle = co_await gyre::fork(makes_child());
    const int inner = co_await number.with(2, makes_child());
    co_return 10 * inner + co_await std::move(handle);
  };
  const auto outermost = [](auto work) -> task<int> {
    co_return co_await number.with(1, std::move(work));
  };
  EXPECT_EQ(sync_wait(outermost(parent(child))), 21);
}

// Executors that fork.

TEST(Fork, AThiefRunsTheChildWhileItsParentGoesOn) {
  forking_executor executor(2, stealing::on_demand);
  const auto parent = [](forking_executor& forks) -> task<bool> {
    std::thread::id thread;
    const auto child = [](std::thread::id& ran_on) -> task<int> {
      ran_on = this_thread_id();
      co_return 1;
    };
    auto handle = co_await gyre::fork(child(thread));
    const std::thread::id before = this_thread_id();
    EXPECT_EQ(thread, std::thread::id());
    EXPECT_TRUE(forks.steal_now());
    EXPECT_NE(thread, std::thread::id());
    EXPECT_NE(thread, this_thread_id());
    const int result = co_await std::move(handle);
    co_return result == 1 && before == this_thread_id();
  };
  EXPECT_TRUE(sync_wait(gyre::on(executor, parent(executor))));
  EXPECT_EQ(executor.steals(), 1U);
}

TEST(Fork, AChildThatNobodyStoleRunsOnItsParentsThreadAtTheAwait) {
  forking_executor executor(2, stealing::on_demand);
  std::vector<int> order;
  const auto parent = [](std::vector<int>& seen) -> task<int> {
    auto first = co_await gyre::fork(noted(seen, 1));
    auto second = co_await gyre::fork(noted(seen, 2));
    seen.push_back(0);
    const int b = co_await std::move(second);
    const int a = co_await std::move(first);
    co_return a + 10 * b;
  };
  EXPECT_EQ(sync_wait(gyre::on(executor, parent(order))), 21);
  EXPECT_EQ(order, (std::vector{0, 2, 1}));
  EXPECT_EQ(executor.steals(), 0U);
}

TEST(Fork, AwaitedInTheOrderOfTheForksNewerChildrenRunFirst) {
  forking_executor executor(1, stealing::on_demand);
  std::vector<int> order;
  const auto parent = [](std::vector<int>& seen) -> task<int> {
    auto first = co_await gyre::fork(noted(seen, 1));
    auto second = co_await gyre::fork(noted(seen, 2));
    auto third = co_await gyre::fork(noted(seen, 3));
    const int a = co_await std::move(first);
    const int b = co_await std::move(second);
    const int c = co_await std::move(third);
    co_return a + 10 * b + 100 * c;
  };
  EXPECT_EQ(sync_wait(gyre::on(executor, parent(order))), 321);
  EXPECT_EQ(order, (std::vector{3, 2, 1}));
}

TEST(Fork, TheHandleIsAwaitedOnAnotherExecutorThanThatOfTheFork) {
  forking_executor executor(2, stealing::on_demand);
  gyre::test::thread_executor elsewhere;
  const auto parent = [](gyre::executor& there) -> task<bool> {
    std::vector<int> order;
    auto child = co_await gyre::fork(noted(order, 1));
    co_await gyre::resume_on(there);
    const int result = co_await std::move(child);
    co_return result == 1 && there.running_here();
  };
  EXPECT_TRUE(sync_wait(gyre::on(executor, parent(elsewhere))));
}

TEST(Fork, AChildThatMovesDoesNotMoveItsParent) {
  for (const bool has_thieves : {false, true}) {
    forking_executor executor(2, has_thieves ? stealing::at_once : stealing::on_demand);
    gyre::test::thread_executor elsewhere;
    const auto moves = [](gyre::executor& there) -> task<int> {
      co_await gyre::resume_on(there);
      co_return there.running_here() ? 1 : 0;
    };
    const auto parent = [moves](gyre::executor& home, gyre::executor& there) -> task<bool> {
      auto child = co_await gyre::fork(moves(there));
      const int result = co_await std::move(child);
      co_return result == 1 && home.running_here();
    };
    EXPECT_TRUE(sync_wait(gyre::on(executor, parent(executor, elsewhere))));
  }
}

TEST(Fork, AnErrorOnAThiefWaitsForTheAwait) {
  forking_executor executor(2, stealing::on_demand);
  const auto parent = [](forking_executor& forks) -> task<std::string> {
    auto child = co_await gyre::fork(failing("stolen"));
    EXPECT_TRUE(forks.steal_now());
    std::string caught;
    try {
      static_cast<void>(co_await std::move(child));
    } catch (const std::runtime_error& error) {
      caught = error.what();
    }
    co_return caught;
  };
  EXPECT_EQ(sync_wait(gyre::on(executor, parent(executor))), "stolen");
}

TEST(Fork, ForksWithinTheChildrenOfWhenAllAndTheReverse) {
  forking_executor executor(3);
  const auto tree = [](const auto& self, int depth) -> task<int> {
    if (depth == 0) co_return 1;
    auto left = co_await gyre::fork(self(self, depth - 1));
    const auto [a, b] = co_await gyre::when_all(self(self, depth - 1), self(self, depth - 1));
    const int c = co_await std::move(left);
    co_return a + b + c;
  };
  for (int round = 0; round < 5; ++round) {
    EXPECT_EQ(sync_wait(gyre::on(executor, tree(tree, 6))), 729);
  }
}

TEST(Fork, ComesTogetherWhereChildrenWaitFailAndAreStolen) {
  forking_executor executor(3);
  for (int round = 0; round < 5; ++round) {
    std::atomic<int> failed = 0;
    EXPECT_EQ(sync_wait(gyre::on(executor, gyre::test::forking_tree(7, failed))), 128);
    EXPECT_EQ(failed, 127);
  }
}

// Stack.

task<int> deep(int depth) {
  if (depth == 0) co_return 0;
  auto child = co_await gyre::fork(deep(depth - 1));
  co_return co_await std::move(child) + 1;
}

TEST(Fork, NestsWithoutGrowingTheStack) {
  manual_executor loop;
  EXPECT_EQ(run_in_virtual_time(loop, deep(100'000)), 100'000);
  forking_executor executor(1, stealing::on_demand);
  EXPECT_EQ(sync_wait(gyre::on(executor, deep(100'000))), 100'000);
}

}  // namespace
}  // namespace fork_test

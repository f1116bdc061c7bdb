// SPDX-License-Identifier: Apache-2.0
// Tests of join_set, in virtual time and on threads.
#include <gyre/sync/join_set.hpp>

#include <gyre/base/slab.hpp>
#include <gyre/task/async_backtrace.hpp>
#include <gyre/task/async_scope.hpp>
#include <gyre/task/live_tasks.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>
#include <tests/support/in_virtual_time.hpp>
#include <tests/support/thread_executor.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace join_set_test {
namespace {

using namespace std::chrono_literals;
using gyre::async_scope;
using gyre::inplace_stop_source;
using gyre::join_set;
using gyre::sleep_for;
using gyre::sync_wait;
using gyre::task;
using gyre::with_scope;
using gyre::test::error_of;
using gyre::test::message_of;
using gyre::test::sleeps;
using gyre::test::thread_executor;
using gyre::testing::run_in_virtual_time;
using std::chrono::nanoseconds;

static_assert(std::is_same_v<join_set<int>::next_result, std::optional<int>>);
static_assert(std::is_same_v<join_set<>::next_result, bool>);

task<int> gives_after(int value, nanoseconds delay) {
  co_await sleep_for(delay);
  co_return value;
}
task<int> fails_after(const char* what, nanoseconds delay) {
  co_await sleep_for(delay);
  throw std::runtime_error(what);
}
task<std::vector<int>> take_all(join_set<int>& set) {
  std::vector<int> taken;
  while (auto each = co_await set.next()) taken.push_back(*each);
  co_return taken;
}

using JoinSet = gyre::test::in_virtual_time;

TEST_F(JoinSet, GivesResultsInTheOrderOfTheEnds) {
  async_scope tasks(executor_);
  join_set<int> set(tasks);
  set.spawn(gives_after(3, 3s));
  set.spawn(gives_after(1, 1s));
  set.spawn(gives_after(2, 2s));
  EXPECT_EQ(set.size(), 3);
  EXPECT_EQ(run(take_all(set)), (std::vector{1, 2, 3}));
  EXPECT_EQ(set.size(), 0);
  run(tasks.join());
}

TEST_F(JoinSet, ItsTasksAreInTheRecordOfLiveTasksUntilTheyEnd) {
  gyre::record_live_tasks(true);
  async_scope scope(executor_);
  {
    join_set<int> set(scope);
    const unsigned line = std::source_location::current().line() + 1;
    set.spawn(gives_after(1, 1s), "download");
    const std::vector<gyre::live_task> found = gyre::live_tasks();
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].name, "download");
    EXPECT_EQ(found[0].from.line(), line);
    EXPECT_EQ(run(take_all(set)), std::vector{1});
    EXPECT_TRUE(gyre::live_tasks().empty());
  }
  run(scope.join());
  gyre::record_live_tasks(false);
}

TEST_F(JoinSet, GivesResultsOfTasksThatEndedBefore) {
  async_scope tasks(executor_);
  join_set<int> set(tasks);
  set.spawn(gives_after(2, 2s));
  set.spawn(gives_after(1, 1s));
  executor_.advance(1h);
  EXPECT_EQ(set.size(), 2);
  EXPECT_EQ(run(take_all(set)), (std::vector{1, 2}));
}

TEST_F(JoinSet, IsEmptyAtFirstAndAfterwardsAndMayBeUsedAgain) {
  async_scope tasks(executor_);
  join_set<int> set(tasks);
  EXPECT_EQ(run(set.next()), std::nullopt);
  set.spawn(gives_after(1, 1s));
  EXPECT_EQ(run(set.next()), 1);
  EXPECT_EQ(run(set.next()), std::nullopt);
  set.spawn(gives_after(2, 1s));
  EXPECT_EQ(run(set.next()), 2);
}

// The task has ended, and its taker is about to resume, when the limit expires.
TEST_F(JoinSet, ATaskThatWasTakenAndStoppedIsNoExpiredLimit) {
  async_scope tasks(executor_);
  join_set<> set(tasks);
  set.spawn(sleep_for(1h));
  auto taken = gyre::spawn_future(executor_, gyre::with_timeout(set.next(), 1s));
  executor_.run_all();
  set.request_stop();
  EXPECT_TRUE(executor_.run_one());
  ASSERT_EQ(executor_.pending(), 1U) << "the taker";
  EXPECT_TRUE(executor_.expire_next());
  executor_.run_all();
  EXPECT_EQ(error_of([&] { taken.get(); }), std::errc::operation_canceled);
  EXPECT_EQ(set.size(), 0);
  set.spawn(sleep_for(1h));
  run(tasks.join());
}

TEST_F(JoinSet, ALimitThatExpiresBeforeAnyTaskHasEndedTakesNone) {
  async_scope tasks(executor_);
  join_set<> set(tasks);
  set.spawn(sleep_for(1h));
  auto nothing = gyre::spawn_future(executor_, gyre::with_timeout(set.next(), 1s));
  executor_.advance(2s);
  EXPECT_EQ(error_of([&] { nothing.get(); }), gyre::time_limit_errc::expired);
  EXPECT_EQ(set.size(), 1);
  run(tasks.join());
}

TEST_F(JoinSet, SizeLimitsHowManyRun) {
  async_scope tasks(executor_);
  join_set<> set(tasks);
  int running = 0;
  int most = 0;
  const auto work = [&]() -> task<> {
    most = std::max(most, ++running);
    co_await sleep_for(1s);
    --running;
  };
  const auto spawn_all = [&]() -> task<> {
    for (int i = 0; i < 10; ++i) {
      if (set.size() == 3) co_await set.next();
      set.spawn(work());
    }
    while (co_await set.next()) continue;
  };
  run(spawn_all());
  EXPECT_EQ(most, 3);
  EXPECT_EQ(running, 0);
  run(tasks.join());
}

TEST_F(JoinSet, CarriesReferencesVoidAndWhatOnlyMoves) {
  async_scope tasks(executor_);
  join_set<int&> references(tasks);
  references.spawn([](int& to) -> task<int&> { co_return to; }(ended_));
  EXPECT_EQ(&run(references.next())->get(), &ended_);
  join_set<std::unique_ptr<int>> movable(tasks);
  movable.spawn([]() -> task<std::unique_ptr<int>> { co_return std::make_unique<int>(5); }());
  EXPECT_EQ(**run(movable.next()), 5);
  join_set<> nothing(tasks);
  nothing.spawn(sleep_for(1s));
  EXPECT_TRUE(run(nothing.next()));
  EXPECT_FALSE(run(nothing.next()));
}

TEST_F(JoinSet, TryNextDoesNotWait) {
  async_scope tasks(executor_);
  join_set<int> set(tasks);
  EXPECT_EQ(set.try_next(), std::nullopt);
  set.spawn(gives_after(1, 1s));
  set.spawn(fails_after("failed", 2s));
  EXPECT_EQ(set.try_next(), std::nullopt);
  EXPECT_EQ(set.size(), 2);
  executor_.advance(3s);
  EXPECT_EQ(set.try_next(), 1);
  EXPECT_EQ(message_of([&] { static_cast<void>(set.try_next()); }), "failed");
  EXPECT_EQ(set.try_next(), std::nullopt);
  EXPECT_EQ(set.size(), 0);
}

TEST_F(JoinSet, ErrorsAreThrownByNextAndNotByTheScope) {
  std::vector<int> taken;
  std::vector<std::string> errors;
  const auto take = [](join_set<int>& set, std::vector<int>& values,
                       std::vector<std::string>& messages) -> task<> {
    while (set.size() != 0) {
      try {
        const std::optional<int> each = co_await set.next();
        values.push_back(*each);
      } catch (const std::runtime_error& error) {
        messages.emplace_back(error.what());
      }
    }
  };
  run(with_scope([&](gyre::scope& here) -> task<> {
    join_set<int> set(here);
    set.spawn(fails_after("first", 1s));
    set.spawn(gives_after(2, 2s));
    set.spawn(fails_after("third", 3s));
    co_await take(set, taken, errors);
  }));
  EXPECT_EQ(taken, std::vector{2});
  EXPECT_EQ(errors, (std::vector<std::string>{"first", "third"}));
}

TEST_F(JoinSet, StopOfTheWaitTakesNothing) {
  async_scope tasks(executor_);
  join_set<int> set(tasks);
  set.spawn(gives_after(1, 1h));
  EXPECT_EQ(error_of([&] { run(gyre::with_timeout(set.next(), 1s)); }), std::errc::timed_out);
  EXPECT_LT(elapsed(), 1min);
  EXPECT_EQ(set.size(), 1);
  EXPECT_EQ(run(set.next()), 1);
}

TEST_F(JoinSet, StopEndsTheTasksAndNotTheScope) {
  async_scope tasks(executor_);
  tasks.spawn(sleeps(1min, ended_));
  join_set<> set(tasks);
  set.spawn(sleeps(1h, ended_));
  set.spawn(sleeps(1h, ended_));
  executor_.run_all();
  EXPECT_TRUE(set.request_stop());
  EXPECT_FALSE(set.request_stop());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(error_of([&] { run(set.next()); }), std::errc::operation_canceled);
  }
  EXPECT_EQ(ended_, 2);
  EXPECT_FALSE(run(set.next()));
  run(tasks.join());
  EXPECT_EQ(ended_, 3);
  EXPECT_LT(elapsed(), 10min);
}

TEST_F(JoinSet, StopOfTheScopeStopsTheTasks) {
  async_scope tasks(executor_);
  join_set<> set(tasks);
  set.spawn(sleeps(1h, ended_));
  executor_.run_all();
  tasks.request_stop();
  run(tasks.join());
  EXPECT_EQ(ended_, 1);
  EXPECT_EQ(set.size(), 1) << "it was not taken";
  EXPECT_EQ(error_of([&] { static_cast<void>(set.try_next()); }), std::errc::operation_canceled);
}

TEST_F(JoinSet, DestroyedLeavesItsTasksToTheScope) {
  async_scope tasks(executor_);
  {
    join_set<> set(tasks);
    set.spawn(sleeps(1s, ended_));
    set.spawn(sleeps(1h, ended_));
    executor_.advance(1min);
    EXPECT_EQ(ended_, 1);
  }
  EXPECT_EQ(tasks.size(), 1);
  run(tasks.join());
  EXPECT_EQ(ended_, 2);
  EXPECT_GE(elapsed(), 1h);
}

TEST_F(JoinSet, ErrorsAfterItsDestructionGoToTheScope) {
  async_scope tasks(executor_);
  {
    join_set<int> set(tasks);
    set.spawn(fails_after("dropped", 1s));
    set.spawn(fails_after("thrown", 1h));
    executor_.advance(1min);
  }
  EXPECT_EQ(message_of([&] { run(tasks.join()); }), "thrown");
}

TEST_F(JoinSet, StoppedAndDestroyedIsNoErrorOfTheScope) {
  async_scope tasks(executor_);
  {
    join_set<> set(tasks);
    set.spawn(sleeps(1h, ended_));
    set.request_stop();
  }
  run(tasks.join());
  EXPECT_EQ(ended_, 1);
  EXPECT_LT(elapsed(), 1min);
}

TEST_F(JoinSet, CoroutineThatWaitsMayBeDestroyed) {
  async_scope tasks(executor_);
  join_set<int> set(tasks);
  set.spawn(gives_after(1, 1s));
  gyre::task_context context;
  context.where = &executor_;
  auto waits = gyre::as_task(set.next());
  gyre::detail::task_access::state(waits).start(context);
  waits = decltype(waits)();
  EXPECT_EQ(run(set.next()), 1);
}

TEST_F(JoinSet, SpawnOfAnEmptyTaskAndInAScopeThatHasEndedAreErrors) {
  async_scope tasks(executor_);
  join_set<> set(tasks);
  EXPECT_THROW(set.spawn(task<>()), std::logic_error);
  run(tasks.join());
  EXPECT_THROW(set.spawn(sleeps(1s, ended_)), std::logic_error);
  EXPECT_EQ(set.size(), 0);
}

TEST_F(JoinSet, TasksAreAmongTheLiveTasksOfTheScope) {
  async_scope tasks(executor_);
  join_set<> set(tasks);
  set.spawn(sleeps(1s, ended_), "sleeper");
  EXPECT_EQ(tasks.live_tasks().size(), gyre::async_backtrace_is_on ? 1 : 0);
  run(tasks.join());
  EXPECT_TRUE(tasks.live_tasks().empty());
}

TEST_F(JoinSet, LeavesNoMemoryBehind) {
  const std::size_t before = gyre::read_slab_stats().blocks_in_use;
  run(with_scope([](gyre::scope& here) -> task<> {
    join_set<int> set(here);
    for (int i = 0; i < 1000; ++i) {
      set.spawn(gives_after(i, 1s));
      if (i % 2 == 0) co_await set.next();
    }
  }));
  EXPECT_LE(gyre::read_slab_stats().blocks_in_use, before + 10);
}

TEST_F(JoinSet, TakesFromTasksOnSeveralThreads) {
  thread_executor one;
  thread_executor other;
  thread_executor home;
  const auto yields = [](int value) -> task<int> {
    for (int i = 0; i < value % 4; ++i) co_await gyre::yield();
    co_return value;
  };
  const auto take = [&](thread_executor& own) -> task<> {
    async_scope tasks(own);
    join_set<int> set(tasks);
    for (int round = 0; round < 100; ++round) {
      int sum = 0;
      for (int i = 0; i < 10; ++i) set.spawn(i % 2 == 0 ? one : other, yields(i));
      while (auto each = co_await set.next()) {
        EXPECT_TRUE(own.running_here());
        sum += *each;
      }
      EXPECT_EQ(sum, 45);
    }
    co_await tasks.join();
  };
  sync_wait(gyre::on(home, take(home)));
}

TEST_F(JoinSet, SpawnsFromOtherThreads) {
  thread_executor one;
  thread_executor other;
  async_scope tasks(one);
  join_set<int> set(tasks);
  const auto gives = [](int value) -> task<int> { co_return value; };
  std::vector<std::jthread> spawners;
  for (gyre::executor* target :
       {static_cast<gyre::executor*>(&one), static_cast<gyre::executor*>(&other)}) {
    spawners.emplace_back([&, target] {
      for (int i = 0; i < 500; ++i) set.spawn(*target, gives(1));
    });
  }
  int sum = 0;
  while (sum < 1000) {
    const std::optional<int> each = sync_wait(set.next());
    sum += each.value_or(0);
  }
  spawners.clear();
  EXPECT_EQ(set.size(), 0);
  sync_wait(tasks.join());
}

TEST_F(JoinSet, StopsEndsAndItsDestructionRaceOnSeveralThreads) {
  thread_executor one;
  thread_executor other;
  for (int round = 0; round < 300; ++round) {
    std::atomic<int> ended = 0;
    const auto yields = [](std::atomic<int>& count) -> task<int> {
      struct at_end {
        std::atomic<int>& to;
        ~at_end() { ++to; }
      } const counted{count};
      for (int i = 0; i < 2; ++i) co_await gyre::yield();
      co_return 1;
    };
    async_scope tasks(one);
    {
      inplace_stop_source stop_of_wait;
      join_set<int> set(tasks);
      for (int i = 0; i < 4; ++i) set.spawn(i % 2 == 0 ? one : other, yields(ended));
      std::jthread stops_wait([&] { stop_of_wait.request_stop(); });
      std::jthread stops_tasks([&] {
        if (round % 2 == 0) set.request_stop();
      });
      try {
        EXPECT_EQ(sync_wait(set.next(), stop_of_wait.get_token()), 1);
      } catch (const std::system_error& error) {
        EXPECT_EQ(error.code(), std::errc::operation_canceled);
      }
    }
    sync_wait(tasks.join());
    EXPECT_EQ(ended, 4);
  }
}

}  // namespace
}  // namespace join_set_test

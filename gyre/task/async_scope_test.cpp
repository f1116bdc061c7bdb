// SPDX-License-Identifier: Apache-2.0
// Tests of async_scope, in virtual time and on threads.
#include <gyre/task/async_scope.hpp>

#include <gyre/task/as_task.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task_local.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>
#include <tests/support/in_virtual_time.hpp>
#include <tests/support/thread_executor.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace async_scope_test {
namespace {

using namespace std::chrono_literals;
using gyre::async_scope;
using gyre::inplace_stop_source;
using gyre::scope_errors;
using gyre::sleep_for;
using gyre::sync_wait;
using gyre::task;
using gyre::test::counts;
using gyre::test::message_of;
using gyre::test::sleeps;
using gyre::test::thread_executor;
using gyre::testing::manual_executor;
using gyre::testing::run_in_virtual_time;

task<> fails(const char* what) {
  throw std::runtime_error(what);
  co_return;
}
task<> joins(async_scope& joined, int& returned) {
  co_await joined.join();
  ++returned;
}

using AsyncScope = gyre::test::in_virtual_time;

TEST_F(AsyncScope, JoinWaitsForAllTasks) {
  async_scope tasks(executor_);
  tasks.spawn(sleeps(2s, ended_));
  tasks.spawn(sleeps(1s, ended_));
  EXPECT_EQ(tasks.size(), 2);
  run(tasks.join());
  EXPECT_EQ(ended_, 2);
  EXPECT_EQ(tasks.size(), 0);
  EXPECT_GE(elapsed(), 2s);
}

TEST_F(AsyncScope, JoinOfAnUnusedScopeReturnsAtOnce) {
  async_scope tasks(executor_);
  sync_wait(tasks.join());
}

TEST_F(AsyncScope, MayBeDestroyedWithoutAJoinIfNoTaskIsRunning) {
  const async_scope unused(executor_);
  async_scope used(executor_);
  used.spawn(sleeps(1s, ended_));
  executor_.advance(2s);
  EXPECT_EQ(ended_, 1);
}

TEST_F(AsyncScope, IsAScope) {
  async_scope tasks(executor_);
  const auto spawn_into = [this](gyre::scope& any) { any.spawn(sleeps(1s, ended_)); };
  spawn_into(tasks);
  run(tasks.join());
  EXPECT_EQ(ended_, 1);
}

TEST_F(AsyncScope, SpawnAfterTheEndIsAnError) {
  async_scope tasks(executor_);
  tasks.spawn(sleeps(1s, ended_));
  run(tasks.join());
  EXPECT_THROW(tasks.spawn(sleeps(1s, ended_)), std::logic_error);
  EXPECT_EQ(tasks.size(), 0);
  run(tasks.join());
}

TEST_F(AsyncScope, SpawnOfAnEmptyTaskIsAnError) {
  async_scope tasks(executor_);
  EXPECT_THROW(tasks.spawn(task<>()), std::logic_error);
}

TEST_F(AsyncScope, TasksMaySpawnWhileItIsJoined) {
  async_scope tasks(executor_);
  tasks.spawn([](gyre::scope& same, int& ended) -> task<> {
    co_await sleep_for(1s);
    same.spawn(sleeps(1s, ended));
  }(tasks, ended_));
  run(tasks.join());
  EXPECT_EQ(ended_, 1);
  EXPECT_GE(elapsed(), 2s);
}

TEST_F(AsyncScope, FirstErrorStopsTheOthersAndIsThrownByEveryJoin) {
  async_scope tasks(executor_);
  tasks.spawn(sleeps(1h, ended_));
  tasks.spawn(fails("first"));
  EXPECT_EQ(message_of([&] { run(tasks.join()); }), "first");
  EXPECT_EQ(message_of([&] { run(tasks.join()); }), "first");
  EXPECT_EQ(ended_, 1);
  EXPECT_LT(elapsed(), 1min);
}

TEST_F(AsyncScope, CollectsAllErrorsIfToldTo) {
  async_scope tasks(executor_, scope_errors::collect);
  tasks.spawn(fails("first"));
  tasks.spawn(sleeps(1s, ended_));
  tasks.spawn(fails("second"));
  for (int times = 0; times < 2; ++times) {
    try {
      run(tasks.join());
      ADD_FAILURE() << "did not throw";
    } catch (const gyre::scope_error& error) {
      EXPECT_EQ(error.errors().size(), 2);
    }
  }
  EXPECT_EQ(ended_, 1);
}

TEST_F(AsyncScope, StoppedByItselfHasNotFailed) {
  async_scope tasks(executor_);
  tasks.spawn(sleeps(1h, ended_));
  executor_.run_all();
  EXPECT_TRUE(tasks.request_stop());
  EXPECT_FALSE(tasks.request_stop());
  run(tasks.join());
  EXPECT_EQ(ended_, 1);
  EXPECT_LT(elapsed(), 1min);
}

TEST_F(AsyncScope, IsStoppedWithItsParent) {
  inplace_stop_source parent;
  async_scope tasks(executor_, parent.get_token());
  tasks.spawn(sleeps(1h, ended_));
  executor_.run_all();
  parent.request_stop();
  run(tasks.join());
  EXPECT_EQ(ended_, 1);
  EXPECT_LT(elapsed(), 1min);
}

TEST_F(AsyncScope, StopOfTheCoroutineThatJoinsStopsTheTasksAndAwaitsThem) {
  async_scope tasks(executor_);
  tasks.spawn(sleeps(1h, ended_));
  try {
    run(gyre::with_timeout(tasks.join(), 1s));
    ADD_FAILURE() << "did not throw";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::timed_out);
  }
  EXPECT_EQ(ended_, 1);
  EXPECT_EQ(tasks.size(), 0);
  EXPECT_LT(elapsed(), 1min);
}

TEST_F(AsyncScope, JoinByAStoppedCoroutineAwaitsTheTasks) {
  async_scope tasks(executor_);
  tasks.spawn(sleeps(1h, ended_));
  executor_.run_all();
  inplace_stop_source stopped;
  stopped.request_stop();
  EXPECT_THROW(run(tasks.join(), stopped.get_token()), std::system_error);
  EXPECT_EQ(ended_, 1);
}

TEST_F(AsyncScope, JoinThatIsStoppedReturnsIfTheTasksEndedWithoutACancellation) {
  async_scope tasks(executor_);
  tasks.spawn([](int& ended) -> task<> {
    ++ended;
    co_return;
  }(ended_));
  inplace_stop_source stopped;
  stopped.request_stop();
  run(tasks.join(), stopped.get_token());
  EXPECT_EQ(ended_, 1);
}

TEST_F(AsyncScope, SeveralCoroutinesMayJoin) {
  async_scope tasks(executor_);
  int returned = 0;
  tasks.spawn(sleeps(1s, ended_));
  gyre::spawn(executor_, joins(tasks, returned));
  gyre::spawn(executor_, joins(tasks, returned));
  executor_.run_all();
  EXPECT_EQ(returned, 0);
  run(tasks.join());
  executor_.run_all();
  EXPECT_EQ(returned, 2);
}

TEST_F(AsyncScope, TasksHaveNoTaskLocals) {
  static gyre::task_local<int> number;
  int seen = -1;
  async_scope tasks(executor_);
  const auto spawn_with_value = [&]() -> task<> {
    tasks.spawn([](int& to) -> task<> {
      const int& inherited = co_await number.get();
      to = inherited;
    }(seen));
    co_await tasks.join();
  };
  run(number.with(5, spawn_with_value()));
  EXPECT_EQ(seen, 0);
}

TEST_F(AsyncScope, ResumesJoinersOnTheirOwnExecutors) {
  thread_executor one;
  thread_executor other;
  thread_executor home;
  for (int round = 0; round < 100; ++round) {
    async_scope tasks(one);
    std::atomic<int> ran = 0;
    for (int i = 0; i < 5; ++i) {
      tasks.spawn(counts(ran));
      tasks.spawn(other, counts(ran));
    }
    const auto join_at_home = [](async_scope& joined, thread_executor& own) -> task<> {
      co_await joined.join();
      EXPECT_TRUE(own.running_here());
    };
    sync_wait(gyre::when_all(gyre::on(home, join_at_home(tasks, home)),
                             gyre::on(other, join_at_home(tasks, other))));
    EXPECT_EQ(ran, 10);
  }
}

// Each spawn either comes before the end, and is waited for, or throws.
TEST_F(AsyncScope, SpawnsRaceWithTheEnd) {
  thread_executor one;
  thread_executor other;
  for (int round = 0; round < 300; ++round) {
    std::atomic<int> ran = 0;
    int admitted = 0;
    {
      async_scope tasks(one);
      std::thread spawner([&] {
        try {
          for (int i = 0; i < 10; ++i) {
            tasks.spawn(i % 2 == 0 ? one : other, counts(ran));
            ++admitted;
          }
        } catch (const std::logic_error&) {
        }
      });
      sync_wait(tasks.join());
      const int ran_by_then = ran;
      spawner.join();
      EXPECT_EQ(ran_by_then, admitted);
    }
    EXPECT_EQ(ran, admitted);
  }
}

TEST_F(AsyncScope, ErrorsStopsAndEndsRaceOnSeveralThreads) {
  thread_executor one;
  thread_executor other;
  for (int round = 0; round < 300; ++round) {
    async_scope tasks(one);
    std::jthread stopper([&] { tasks.request_stop(); });
    std::atomic<int> ran = 0;
    tasks.spawn(fails("failed"));
    tasks.spawn(other, counts(ran));
    tasks.spawn(other, fails("failed"));
    EXPECT_EQ(message_of([&] { sync_wait(tasks.join()); }), "failed");
    EXPECT_EQ(ran, 1);
  }
}

// The coroutine that joins owns the scope, and resumes on a thread where a task ends.
TEST_F(AsyncScope, MayBeDestroyedAsSoonAsJoinReturns) {
  thread_executor one;
  thread_executor other;
  const auto open_and_join = [](thread_executor& home, thread_executor& away) -> task<> {
    for (int round = 0; round < 500; ++round) {
      std::atomic<int> ran = 0;
      auto tasks = std::make_unique<async_scope>(home);
      tasks->spawn(counts(ran));
      tasks->spawn(away, counts(ran));
      tasks->spawn(away, counts(ran));
      co_await tasks->join();
      tasks.reset();
      EXPECT_EQ(ran, 3);
    }
  };
  sync_wait(gyre::when_all(gyre::on(one, open_and_join(one, other)),
                           gyre::on(other, open_and_join(other, one))));
}

TEST_F(AsyncScope, DestroyedWithItsTasksRunningEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        manual_executor executor;
        async_scope tasks(executor);
        tasks.spawn(sleeps(1h, ended_));
        tasks.spawn(sleeps(1h, ended_));
      },
      "async_scope was destroyed while tasks of the scope were running: 2; co_await its join");
}

TEST_F(AsyncScope, CoroutineDestroyedWhileItJoinsEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        manual_executor executor;
        async_scope tasks(executor);
        tasks.spawn(sleeps(1h, ended_));
        gyre::task_context context;
        context.where = &executor;
        int returned = 0;
        task<> work = joins(tasks, returned);
        gyre::detail::task_access::state(work).start(context);
        executor.run_all();
        work = task<>();
      },
      "a coroutine was destroyed that awaits async_scope::join");
}

}  // namespace
}  // namespace async_scope_test

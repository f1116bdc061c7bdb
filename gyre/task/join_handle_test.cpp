// SPDX-License-Identifier: Apache-2.0
// Tests of join_handle, in virtual time and on threads.
#include <gyre/task/join_handle.hpp>

#include <gyre/base/operation.hpp>
#include <gyre/base/slab.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/async_backtrace.hpp>
#include <gyre/task/async_scope.hpp>
#include <gyre/task/executor.hpp>
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
#include <cstddef>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace join_handle_test {
namespace {

using namespace std::chrono_literals;
using gyre::async_scope;
using gyre::inplace_stop_source;
using gyre::join_handle;
using gyre::sleep_for;
using gyre::spawn_joinable;
using gyre::sync_wait;
using gyre::task;
using gyre::with_scope;
using gyre::test::error_of;
using gyre::test::message_of;
using gyre::test::sleeps;
using gyre::test::thread_executor;
using gyre::testing::manual_executor;
using gyre::testing::run_in_virtual_time;
using std::chrono::nanoseconds;

static_assert(!std::is_copy_constructible_v<join_handle<int>>);

task<int> answers_after(nanoseconds delay) {
  co_await sleep_for(delay);
  co_return 42;
}
task<int> fails(const char* what) {
  throw std::runtime_error(what);
  co_return 0;
}
task<> fails_after(nanoseconds delay) {
  co_await sleep_for(delay);
  throw std::runtime_error("failed later");
}

using JoinHandle = gyre::test::in_virtual_time;

TEST_F(JoinHandle, StartsTheTaskAtOnceAndGivesItsResult) {
  join_handle<int> answer = spawn_joinable(executor_, answers_after(1s));
  executor_.advance(2s);
  EXPECT_TRUE(answer.is_done());
  EXPECT_EQ(run(answer.join()), 42);
}

TEST_F(JoinHandle, WaitsForATaskThatHasNotEnded) {
  join_handle<int> answer = spawn_joinable(executor_, answers_after(1h));
  EXPECT_FALSE(answer.is_done());
  EXPECT_EQ(run(std::move(answer)), 42);
  EXPECT_GE(elapsed(), 1h);
}

TEST_F(JoinHandle, CarriesReferencesVoidAndWhatOnlyMoves) {
  const auto refers = [](int& to) -> task<int&> { co_return to; };
  EXPECT_EQ(&run(spawn_joinable(executor_, refers(ended_))), &ended_);
  const auto moves = []() -> task<std::unique_ptr<int>> { co_return std::make_unique<int>(5); };
  EXPECT_EQ(*run(spawn_joinable(executor_, moves())), 5);
  run(spawn_joinable(executor_, sleep_for(1s)));
  EXPECT_GE(elapsed(), 1s);
}

TEST_F(JoinHandle, ThrowsTheExceptionOfTheTask) {
  join_handle<int> failing = spawn_joinable(executor_, fails("failed"));
  EXPECT_EQ(message_of([&] { run(failing.join()); }), "failed");
  join_handle<int> failed = spawn_joinable(executor_, fails("failed before"));
  executor_.run_all();
  EXPECT_EQ(message_of([&] { run(failed.join()); }), "failed before");
}

TEST_F(JoinHandle, GivesTheResultOnce) {
  join_handle<int> answer = spawn_joinable(executor_, answers_after(1s));
  EXPECT_EQ(run(answer.join()), 42);
  EXPECT_TRUE(answer.is_done());
  EXPECT_THROW(run(answer.join()), std::logic_error);
  join_handle<int> failing = spawn_joinable(executor_, fails("failed"));
  EXPECT_THROW(run(failing.join()), std::runtime_error);
  EXPECT_THROW(run(failing.join()), std::logic_error);
}

TEST_F(JoinHandle, EmptyHandlesAndTasksAreErrors) {
  join_handle<> empty;
  EXPECT_FALSE(empty.valid());
  EXPECT_THROW(static_cast<void>(empty.join()), std::logic_error);
  EXPECT_THROW(static_cast<void>(empty.is_done()), std::logic_error);
  EXPECT_THROW(empty.request_stop(), std::logic_error);
  EXPECT_THROW(empty.detach(), std::logic_error);
  EXPECT_THROW(static_cast<void>(spawn_joinable(executor_, task<>())), std::logic_error);
}

TEST_F(JoinHandle, StopOfTheTaskIsAnErrorForTheOneThatJoins) {
  join_handle<> handle = spawn_joinable(executor_, sleeps(1h, ended_));
  executor_.run_all();
  EXPECT_TRUE(handle.request_stop());
  EXPECT_FALSE(handle.request_stop());
  EXPECT_EQ(error_of([&] { run(handle.join()); }), std::errc::operation_canceled);
  EXPECT_EQ(ended_, 1);
  EXPECT_LT(elapsed(), 1min);
}

TEST_F(JoinHandle, ResultOfATaskThatIgnoresItsStopCounts) {
  join_handle<int> handle = spawn_joinable(executor_, []() -> task<int> { co_return 42; }());
  handle.request_stop();
  EXPECT_EQ(run(handle.join()), 42);
}

TEST_F(JoinHandle, StopOfTheWaitLeavesTheTaskRunning) {
  join_handle<int> answer = spawn_joinable(executor_, answers_after(1h));
  EXPECT_EQ(error_of([&] { run(gyre::with_timeout(answer.join(), 1s)); }), std::errc::timed_out);
  EXPECT_LT(elapsed(), 1min);
  EXPECT_FALSE(answer.is_done());
  EXPECT_EQ(run(answer.join()), 42);
}

TEST_F(JoinHandle, StoppedBeforeItWaitsDoesNotWait) {
  join_handle<int> answer = spawn_joinable(executor_, answers_after(1h));
  inplace_stop_source stopped;
  stopped.request_stop();
  EXPECT_EQ(error_of([&] { run(answer.join(), stopped.get_token()); }),
            std::errc::operation_canceled);
  EXPECT_EQ(run(answer.join()), 42);
}

TEST_F(JoinHandle, CombinatorThatOwnsTheHandleStopsTheTask) {
  EXPECT_EQ(
      error_of([&] { run(gyre::with_timeout(spawn_joinable(executor_, sleeps(1h, ended_)), 1s)); }),
      std::errc::timed_out);
  executor_.run_all();
  EXPECT_EQ(ended_, 1);
  EXPECT_LT(elapsed(), 1min);
}

TEST_F(JoinHandle, DestroyedAsksTheTaskToStop) {
  {
    const join_handle<> dropped = spawn_joinable(executor_, sleeps(1h, ended_));
    executor_.run_all();
  }
  executor_.run_all();
  EXPECT_EQ(ended_, 1);
}

TEST_F(JoinHandle, DestroyedBeforeTheTaskStartsRunsItWithAStoppedToken) {
  bool stopped = false;
  {
    const join_handle<> dropped = spawn_joinable(executor_, [](bool& told) -> task<> {
      const gyre::inplace_stop_token token = co_await gyre::current_stop_token();
      told = token.stop_requested();
    }(stopped));
  }
  executor_.run_all();
  EXPECT_TRUE(stopped);
}

TEST_F(JoinHandle, DestroyedDropsTheErrorToo) {
  {
    const join_handle<int> dropped = spawn_joinable(executor_, fails("dropped"));
  }
  executor_.run_all();
  const join_handle<int> failed = spawn_joinable(executor_, fails("dropped"));
  executor_.run_all();
}

TEST_F(JoinHandle, AssignmentDestroysTheOldHandle) {
  join_handle<> handle = spawn_joinable(executor_, sleeps(1h, ended_));
  executor_.run_all();
  handle = spawn_joinable(executor_, sleeps(1s, ended_));
  executor_.run_all();
  EXPECT_EQ(ended_, 1);
  run(handle.join());
  EXPECT_EQ(ended_, 2);
}

TEST_F(JoinHandle, DetachedTaskGoesOn) {
  join_handle<> handle = spawn_joinable(executor_, sleeps(1h, ended_));
  handle.detach();
  EXPECT_FALSE(handle.valid());
  executor_.advance(30min);
  EXPECT_EQ(ended_, 0);
  executor_.advance(1h);
  EXPECT_EQ(ended_, 1);
}

TEST_F(JoinHandle, ErrorOfADetachedTaskTerminatesTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        manual_executor executor;
        spawn_joinable(executor, fails_after(1s)).detach();
        executor.advance(2s);
      },
      "failed later");
}

TEST_F(JoinHandle, StopOfADetachedTaskIsNoError) {
  inplace_stop_source source;
  spawn_joinable(executor_, sleeps(1h, ended_), {.stop = source.get_token()}).detach();
  executor_.run_all();
  source.request_stop();
  executor_.run_all();
  EXPECT_EQ(ended_, 1);
}

TEST_F(JoinHandle, TokenOfTheOptionsStopsTheTask) {
  inplace_stop_source source;
  join_handle<> handle =
      spawn_joinable(executor_, sleeps(1h, ended_), {.stop = source.get_token()});
  executor_.run_all();
  source.request_stop();
  EXPECT_EQ(error_of([&] { run(handle.join()); }), std::errc::operation_canceled);
  EXPECT_LT(elapsed(), 1min);
}

TEST_F(JoinHandle, OutlivesTheSourceOfTheOptions) {
  join_handle<int> handle;
  {
    inplace_stop_source source;
    handle = spawn_joinable(executor_, answers_after(1s), {.stop = source.get_token()});
    executor_.advance(2s);
  }
  EXPECT_EQ(run(handle.join()), 42);
}

// The frame of the task is the last owner of the source that stops the task.
struct owned_source {
  std::shared_ptr<inplace_stop_source> owner = std::make_shared<inplace_stop_source>();
  gyre::inplace_stop_token token = owner->get_token();
  std::weak_ptr<inplace_stop_source> observer = owner;
};
task<int> keeps(std::shared_ptr<inplace_stop_source>, nanoseconds delay) {
  co_await sleep_for(delay);
  co_return 42;
}
task<int> stops_itself(std::shared_ptr<inplace_stop_source> source) {
  source->request_stop();
  co_await sleep_for(1h);
  co_return 42;
}

TEST_F(JoinHandle, TaskMayOwnTheSourceOfTheOptions) {
  owned_source source;
  const join_handle<int> handle =
      spawn_joinable(executor_, keeps(std::move(source.owner), 1s), {.stop = source.token});
  executor_.advance(2s);
  EXPECT_TRUE(source.observer.expired());
  EXPECT_EQ(run(handle.join()), 42);
}

TEST_F(JoinHandle, SourceThatTheTaskOwnsStopsIt) {
  owned_source source;
  const join_handle<int> handle =
      spawn_joinable(executor_, keeps(std::move(source.owner), 1h), {.stop = source.token});
  executor_.run_all();
  source.observer.lock()->request_stop();
  EXPECT_EQ(error_of([&] { run(handle.join()); }), std::errc::operation_canceled);
  EXPECT_TRUE(source.observer.expired());
}

TEST_F(JoinHandle, SourceThatTheTaskOwnsStopsItBeforeItStarts) {
  owned_source source;
  const join_handle<int> handle =
      spawn_joinable(executor_, keeps(std::move(source.owner), 1h), {.stop = source.token});
  source.observer.lock()->request_stop();
  EXPECT_EQ(error_of([&] { run(handle.join()); }), std::errc::operation_canceled);
  EXPECT_TRUE(source.observer.expired());
}

TEST_F(JoinHandle, TaskMayStopItselfByTheSourceThatItOwns) {
  owned_source source;
  const join_handle<int> handle =
      spawn_joinable(executor_, stops_itself(std::move(source.owner)), {.stop = source.token});
  EXPECT_EQ(error_of([&] { run(handle.join()); }), std::errc::operation_canceled);
  EXPECT_TRUE(source.observer.expired());
}

TEST_F(JoinHandle, MayBeDestroyedWhileItIsJoined) {
  std::optional<join_handle<int>> handle = spawn_joinable(executor_, answers_after(1s));
  std::future<int> joined = gyre::spawn_future(executor_, handle->join());
  executor_.run_all();
  handle.reset();
  executor_.advance(2s);
  EXPECT_EQ(joined.get(), 42);
}

TEST_F(JoinHandle, MayBeMovedWhileItIsJoined) {
  join_handle<int> handle = spawn_joinable(executor_, answers_after(1s));
  std::future<int> joined = gyre::spawn_future(executor_, handle.join());
  executor_.run_all();
  const join_handle<int> elsewhere = std::move(handle);
  executor_.advance(2s);
  EXPECT_EQ(joined.get(), 42);
  EXPECT_TRUE(elsewhere.is_done());
}

TEST_F(JoinHandle, CoroutineThatJoinsMayBeDestroyed) {
  join_handle<int> handle = spawn_joinable(executor_, answers_after(1s));
  gyre::task_context context;
  context.where = &executor_;
  task<int> joining = gyre::as_task(handle.join());
  gyre::detail::task_access::state(joining).start(context);
  joining = task<int>();
  EXPECT_EQ(run(handle.join()), 42);
}

// As a loop that is destroyed before it runs.
struct discarding_executor final : gyre::executor {
  void post(gyre::operation& op) noexcept override { resumption = &op; }
  void post_discardable(gyre::operation& op, void (*discard)(gyre::operation&) noexcept) override {
    posted = &op;
    discard_posted = discard;
  }
  bool running_here() const noexcept override { return false; }
  void discard_all() const { discard_posted(*posted); }

  gyre::operation* posted = nullptr;
  gyre::operation* resumption = nullptr;
  void (*discard_posted)(gyre::operation&) noexcept = nullptr;
};

TEST_F(JoinHandle, DestroyedExecutorEndsATaskThatHasNotStarted) {
  discarding_executor loop;
  join_handle<> handle = spawn_joinable(loop, sleeps(1h, ended_));
  loop.discard_all();
  EXPECT_TRUE(handle.is_done());
  EXPECT_EQ(error_of([&] { run(handle.join()); }), std::errc::operation_canceled);
  EXPECT_EQ(ended_, 0);
}

TEST_F(JoinHandle, DestroyedExecutorDestroysTheSourceThatTheTaskOwns) {
  discarding_executor loop;
  owned_source source;
  const join_handle<int> handle =
      spawn_joinable(loop, keeps(std::move(source.owner), 1h), {.stop = source.token});
  loop.discard_all();
  EXPECT_TRUE(source.observer.expired());
  EXPECT_EQ(error_of([&] { run(handle.join()); }), std::errc::operation_canceled);
}

// A coroutine of the executor that joins is left to its queue.
TEST_F(JoinHandle, EndOfAnExecutorResumesNoCoroutineWithinIt) {
  discarding_executor loop;
  join_handle<> handle = spawn_joinable(loop, sleeps(1h, ended_));
  bool resumed = false;
  const auto joins = [](join_handle<>& joined, bool& ended) -> task<> {
    const auto result = co_await gyre::as_expected(joined.join());
    ended = true;
    EXPECT_FALSE(result);
  };
  gyre::task_context context;
  context.where = &loop;
  context.finished = [](gyre::task_context&) noexcept -> std::coroutine_handle<> {
    return std::noop_coroutine();
  };
  task<> joining = joins(handle, resumed);
  gyre::detail::task_access::state(joining).start(context);
  loop.discard_all();
  EXPECT_FALSE(resumed);
  ASSERT_NE(loop.resumption, nullptr);
  loop.resumption->execute();
  EXPECT_TRUE(resumed);
}

TEST_F(JoinHandle, DetachedWhileItIsJoinedLeavesTheErrorToTheCoroutine) {
  join_handle<> handle = spawn_joinable(executor_, fails_after(1s));
  std::future<void> joined = gyre::spawn_future(executor_, handle.join());
  executor_.run_all();
  handle.detach();
  executor_.advance(2s);
  EXPECT_EQ(message_of([&] { joined.get(); }), "failed later");
}

TEST_F(JoinHandle, DetachedWhileItIsJoinedLeavesTheErrorOfAScopeToTheCoroutine) {
  const auto waits = [](gyre::detail::join_wait<void> wait) -> task<std::string> {
    const auto result = co_await gyre::as_result(std::move(wait));
    co_return message_of([&] { std::rethrow_exception(result.error()); });
  };
  const auto body = [&waits](gyre::scope& scope) -> task<std::string> {
    join_handle<> handle = scope.spawn_joinable(fails_after(1s));
    join_handle<std::string> joining = scope.spawn_joinable(waits(handle.join()));
    co_await gyre::yield();
    handle.detach();
    std::string told = co_await joining.join();
    co_return told;
  };
  EXPECT_EQ(run(gyre::with_scope(body)), "failed later");
}

TEST_F(JoinHandle, LeavesNoMemoryBehind) {
  const std::size_t before = gyre::read_slab_stats().blocks_in_use;
  run([](manual_executor& executor) -> task<> {
    for (int i = 0; i < 1000; ++i) {
      co_await spawn_joinable(executor, gyre::yield());
      const join_handle<> dropped = spawn_joinable(executor, sleep_for(1h));
      co_await gyre::yield();
    }
  }(executor_));
  executor_.run_all();
  EXPECT_LE(gyre::read_slab_stats().blocks_in_use, before + 10);
}

TEST_F(JoinHandle, WaitsAllocateNothing) {
  join_handle<int> handle = spawn_joinable(executor_, answers_after(1h));
  const auto blocks_while_waiting = [](join_handle<int>& joined) -> task<int> {
    const int answer = co_await joined.join();
    co_return answer;
  };
  task<int> waits = blocks_while_waiting(handle);
  executor_.run_all();
  const std::size_t before = gyre::read_slab_stats().blocks_in_use;
  gyre::task_context context;
  context.where = &executor_;
  context.finished = [](gyre::task_context&) noexcept -> std::coroutine_handle<> {
    return std::noop_coroutine();
  };
  gyre::detail::task_access::state(waits).start(context);
  EXPECT_EQ(gyre::read_slab_stats().blocks_in_use, before);
  executor_.advance(2h);
  EXPECT_EQ(gyre::detail::task_access::state(waits).take_result(), 42);
}

struct executor_without_memory final : gyre::executor {
  void post(gyre::operation&) noexcept override {}
  void post_discardable(gyre::operation& op, void (*discard)(gyre::operation&) noexcept) override {
    discard(op);
    throw std::bad_alloc();
  }
  bool running_here() const noexcept override { return false; }
};

TEST_F(JoinHandle, StartThatFailsLeavesNothingBehind) {
  executor_without_memory full;
  const std::size_t before = gyre::read_slab_stats().blocks_in_use;
  EXPECT_THROW(static_cast<void>(spawn_joinable(full, sleeps(1h, ended_))), std::bad_alloc);
  owned_source source;
  EXPECT_THROW(static_cast<void>(spawn_joinable(full, keeps(std::move(source.owner), 1h),
                                                {.stop = source.token})),
               std::bad_alloc);
  EXPECT_TRUE(source.observer.expired());
  EXPECT_EQ(gyre::read_slab_stats().blocks_in_use, before);
  async_scope tasks(executor_);
  EXPECT_THROW(static_cast<void>(tasks.spawn_joinable(full, sleeps(1h, ended_))), std::bad_alloc);
  EXPECT_EQ(tasks.size(), 0);
  run(tasks.join());
}

// In a scope.

TEST_F(JoinHandle, TaskOfAScopeGivesItsResult) {
  EXPECT_EQ(run(with_scope([](gyre::scope& here) -> task<int> {
              join_handle<int> answer = here.spawn_joinable(answers_after(1s), "answers");
              co_return co_await answer.join();
            })),
            42);
}

TEST_F(JoinHandle, ScopeWaitsForTheTask) {
  join_handle<> handle;
  run(with_scope([&](gyre::scope& here) -> task<> {
    handle = here.spawn_joinable(sleeps(1h, ended_));
    EXPECT_EQ(here.size(), 1);
    co_return;
  }));
  EXPECT_EQ(ended_, 1);
  EXPECT_TRUE(handle.is_done()) << "before the scope ends";
  run(handle.join());
}

TEST_F(JoinHandle, ErrorOfATaskOfAScopeGoesToTheHandleAlone) {
  run(with_scope([this](gyre::scope& here) -> task<> {
    join_handle<int> failing = here.spawn_joinable(fails("for the handle"));
    here.spawn(sleeps(1s, ended_));
    try {
      co_await failing.join();
      ADD_FAILURE() << "did not throw";
    } catch (const std::runtime_error&) {
    }
    EXPECT_FALSE(here.get_token().stop_requested());
  }));
  EXPECT_EQ(ended_, 1);
  EXPECT_GE(elapsed(), 1s);
}

TEST_F(JoinHandle, ErrorOfADetachedTaskGoesToItsScope) {
  EXPECT_EQ(message_of([this] {
              run(with_scope([](gyre::scope& here) -> task<> {
                here.spawn_joinable(fails_after(1s)).detach();
                co_return;
              }));
            }),
            "failed later");
}

TEST_F(JoinHandle, DetachedTaskThatItsHandleHasStoppedIsNoErrorOfTheScope) {
  run(with_scope([this](gyre::scope& here) -> task<> {
    join_handle<> handle = here.spawn_joinable(sleeps(1h, ended_));
    co_await gyre::yield();
    handle.request_stop();
    handle.detach();
  }));
  EXPECT_EQ(ended_, 1);
  EXPECT_LT(elapsed(), 1min);
}

TEST_F(JoinHandle, StopOfTheScopeStopsTheTask) {
  join_handle<> handle;
  run(with_scope([&](gyre::scope& here) -> task<> {
    handle = here.spawn_joinable(sleeps(1h, ended_));
    co_await gyre::yield();
    here.request_stop();
  }));
  EXPECT_LT(elapsed(), 1min);
  EXPECT_EQ(error_of([&] { run(handle.join()); }), std::errc::operation_canceled);
}

TEST_F(JoinHandle, DroppedTaskOfAScopeIsStoppedAndAwaited) {
  run(with_scope([this](gyre::scope& here) -> task<> {
    static_cast<void>(here.spawn_joinable(sleeps(1h, ended_)));
    co_return;
  }));
  EXPECT_EQ(ended_, 1);
  EXPECT_LT(elapsed(), 1min);
}

TEST_F(JoinHandle, TaskOfAScopeInheritsTaskLocals) {
  static gyre::task_local<int> number;
  const auto open = []() -> task<int> {
    auto body = [](gyre::scope& here) -> task<int> {
      join_handle<int> reads = here.spawn_joinable([]() -> task<int> {
        const int& inherited = co_await number.get();
        co_return inherited;
      }());
      co_return co_await reads.join();
    };
    co_return co_await with_scope(body);
  };
  EXPECT_EQ(run(number.with(5, open())), 5);
}

TEST_F(JoinHandle, TaskOfAScopeIsAmongItsLiveTasks) {
  async_scope tasks(executor_);
  const join_handle<> handle = tasks.spawn_joinable(sleeps(1s, ended_), "sleeper");
  EXPECT_EQ(tasks.live_tasks().size(), gyre::async_backtrace_is_on ? 1 : 0);
  run(tasks.join());
  EXPECT_TRUE(tasks.live_tasks().empty());
}

TEST_F(JoinHandle, ScopeThatHasEndedStartsNoTask) {
  async_scope tasks(executor_);
  run(tasks.join());
  EXPECT_THROW(static_cast<void>(tasks.spawn_joinable(sleeps(1s, ended_))), std::logic_error);
  EXPECT_EQ(ended_, 0);
}

// On threads.

TEST_F(JoinHandle, ResumesOnTheExecutorOfTheOneThatJoins) {
  thread_executor there;
  thread_executor home;
  const auto join_many = [](thread_executor& away, thread_executor& own) -> task<> {
    for (int i = 0; i < 300; ++i) {
      join_handle<int> answer =
          spawn_joinable(away, [](int number) -> task<int> { co_return number; }(i));
      if (i % 3 == 0) co_await gyre::yield();
      const int got = co_await answer.join();
      EXPECT_EQ(got, i);
      EXPECT_TRUE(own.running_here());
    }
  };
  sync_wait(gyre::on(home, join_many(there, home)));
}

TEST_F(JoinHandle, EndsStopsAndHandlesRaceOnSeveralThreads) {
  thread_executor there;
  thread_executor home;
  const auto yield_until_stopped = [](std::atomic<int>& ended) -> task<int> {
    struct at_end {
      std::atomic<int>& count;
      ~at_end() { ++count; }
    } const count{ended};
    for (int i = 0; i < 3; ++i) co_await gyre::yield();
    co_return 42;
  };
  for (int round = 0; round < 400; ++round) {
    std::atomic<int> ended = 0;
    inplace_stop_source stop_of_wait;
    inplace_stop_source stop_of_task;
    {
      join_handle<int> handle =
          spawn_joinable(there, yield_until_stopped(ended), {.stop = stop_of_task.get_token()});
      std::jthread stops_wait([&] { stop_of_wait.request_stop(); });
      std::jthread stops_task(
          [&] { round % 2 == 0 ? stop_of_task.request_stop() : handle.request_stop(); });
      try {
        EXPECT_EQ(sync_wait(gyre::on(home, gyre::as_task(handle.join())), stop_of_wait.get_token()),
                  42);
      } catch (const std::system_error& error) {
        EXPECT_EQ(error.code(), std::errc::operation_canceled);
      }
      stops_task.join();
      stops_wait.join();
      if (round % 3 == 0) {
        try {
          static_cast<void>(sync_wait(handle.join()));
        } catch (const std::logic_error&) {  // joined before
        } catch (const std::system_error&) {
        }
      }
    }
    sync_wait(spawn_joinable(there, gyre::yield()));
    while (ended == 0) sync_wait(spawn_joinable(there, gyre::yield()));
  }
}

TEST_F(JoinHandle, TasksOfAScopeEndOnSeveralThreads) {
  thread_executor one;
  thread_executor other;
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> ended = 0;
    const auto count = [](std::atomic<int>& to) -> task<int> { co_return ++to; };
    sync_wait(with_scope([&](gyre::scope& here) -> task<> {
      join_handle<int> first = here.spawn_joinable(one, count(ended));
      join_handle<int> second = here.spawn_joinable(other, count(ended));
      here.spawn_joinable(other, count(ended)).detach();
      {
        const join_handle<int> dropped = here.spawn_joinable(one, count(ended));
      }
      const int sum = co_await first.join();
      EXPECT_GE(sum, 1);
      if (round % 2 == 0) co_await second.join();
    }));
    EXPECT_EQ(ended, 4);
  }
}

}  // namespace
}  // namespace join_handle_test

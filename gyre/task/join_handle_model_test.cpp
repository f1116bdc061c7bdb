// SPDX-License-Identifier: Apache-2.0
// Model tests of joinable tasks: a stop of the wait never loses the result, a handle that goes
// while its task ends leaks nothing, and the scope of a task ends after its handle is done.
//
// Each of these mutations, tried by hand, makes a test fail: the handle does not count as an
// awaiter; the task leaves its scope before it wakes its awaiters; dropping the handle does not
// release its reference; the task's callback of its parent source ends after the task's frame.
#include <gyre/task/join_handle.hpp>

#include <gyre/task/async_scope.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>
#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <coroutine>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace {

namespace model = gyre::model;
using gyre::async_scope;
using gyre::inplace_stop_source;
using gyre::inplace_stop_token;
using gyre::join_handle;
using gyre::spawn_joinable;
using gyre::task;

// Lets one thread of the model run one operation.
struct one_post final : gyre::executor {
  void post(gyre::operation& op) noexcept override {
    posted = &op;
    arrived.wake();
  }
  bool running_here() const noexcept override { return true; }
  void run() {
    arrived.wait();
    posted->execute();
  }

  gyre::operation* posted = nullptr;
  model::event arrived;
};

enum class ending { none, value, cancelled };

task<> join(const join_handle<int>& handle, ending& end) {
  try {
    const int value = co_await handle.join();
    model::assert_that(value == 42, "the value arrived");
    end = ending::value;
  } catch (const gyre::operation_cancelled&) {
    end = ending::cancelled;
  }
}
task<> join_scope(async_scope& scope, ending& end) {
  co_await scope.join();
  end = ending::value;
}

// A coroutine that waits on the calling thread.
template <class Joined>
struct joining {
  explicit joining(Joined& joined, inplace_stop_token stop = {}) {
    if constexpr (std::is_same_v<Joined, async_scope>) {
      waits = join_scope(joined, end);
    } else {
      waits = join(joined, end);
    }
    context.where = &here;
    context.stop = stop;
    context.finished = [](gyre::task_context&) noexcept -> std::coroutine_handle<> {
      return std::noop_coroutine();
    };
    gyre::detail::task_access::state(waits).start(context);
  }
  ending finish() {
    if (end == ending::none) here.run();
    model::assert_that(end != ending::none, "it has ended");
    return end;
  }

  one_post here;
  gyre::task_context context;
  ending end = ending::none;
  task<> waits;
};

task<int> give_42() { co_return 42; }

task<int> give_43_if_stopped() {
  const inplace_stop_token stop = co_await gyre::current_stop_token();
  co_return stop.stop_requested() ? 43 : 42;
}

TEST(JoinHandleModel, StopOfTheWaitLosesNoResultAndStopsNoTask) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 1}, [] {
    one_post worker;
    inplace_stop_source stop;
    join_handle<int> handle = spawn_joinable(worker, give_43_if_stopped());
    model::thread runs([&] { worker.run(); });
    model::thread stopper([&] { stop.request_stop(); });
    const ending first = joining(handle, stop.get_token()).finish();
    if (first == ending::cancelled) {
      model::assert_that(joining(handle).finish() == ending::value, "joined again");
    }
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(JoinHandleModel, MayBeDestroyedWhileTheTaskEndsAndIsAwaited) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 1}, [] {
    one_post worker;
    std::optional<join_handle<int>> handle = spawn_joinable(worker, give_42());
    model::thread runs([&] { worker.run(); });
    joining waits(*handle);
    model::thread destroys([&] { handle.reset(); });
    model::assert_that(waits.finish() == ending::value, "served");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(JoinHandleModel, StopAndDestructionRaceWithTheEnd) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 1}, [] {
    one_post worker;
    inplace_stop_source stop;
    {
      join_handle<int> handle =
          spawn_joinable(worker, give_43_if_stopped(), {.stop = stop.get_token()});
      model::thread runs([&] { worker.run(); });
      model::thread stopper([&] { stop.request_stop(); });
      const join_handle<int> dropped = std::move(handle);
    }
  });
  EXPECT_TRUE(checked) << checked;
}

// The one that asks for the stop and the task's frame share the source.
TEST(JoinHandleModel, StopBySourceThatTheTaskOwnsRacesWithTheEnd) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 1}, [] {
    one_post worker;
    auto source = std::make_shared<inplace_stop_source>();
    const inplace_stop_token token = source->get_token();
    const auto owns = [](std::shared_ptr<inplace_stop_source>) -> task<int> { co_return 42; };
    const join_handle<int> handle = spawn_joinable(worker, owns(source), {.stop = token});
    model::thread runs([&] { worker.run(); });
    model::thread stopper([owner = std::move(source)]() mutable {
      owner->request_stop();
      owner.reset();
    });
    model::assert_that(joining(handle).finish() == ending::value, "served");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(JoinHandleModel, ScopeEndsAfterTheHandleIsDone) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 1}, [] {
    one_post worker;
    join_handle<int> handle;
    {
      async_scope scope(worker);
      handle = scope.spawn_joinable(give_42());
      model::thread runs([&] { worker.run(); });
      joining(scope).finish();
      model::assert_that(handle.is_done(), "before the scope ended");
    }
    model::assert_that(joining(handle).finish() == ending::value, "outlives the scope");
  });
  EXPECT_TRUE(checked) << checked;
}

}  // namespace

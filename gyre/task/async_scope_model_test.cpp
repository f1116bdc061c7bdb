// SPDX-License-Identifier: Apache-2.0
// Model tests of the end of an async_scope: it comes once, after the last task, every coroutine
// that joins is resumed and sees the errors, and the one that joined may destroy the scope.
//
// Each of these mutations, tried by hand, makes a test fail: the end of a task is counted with a
// relaxed order; a spawn adds its task without a look at the count; a joiner that finds the end
// waits; the end reads the joiners without the exchange.
#include <gyre/task/async_scope.hpp>

#include <gyre/task/task.hpp>
#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <coroutine>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

namespace {

namespace model = gyre::model;
using gyre::async_scope;
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

task<> join(async_scope& joined, bool& failed, bool& returned) {
  try {
    co_await joined.join();
  } catch (const std::runtime_error&) {
    failed = true;
  }
  returned = true;
}

// A coroutine that joins on the calling thread.
struct joining {
  explicit joining(async_scope& joined) : waits(join(joined, failed, returned)) {
    context.where = &here;
    context.finished = [](gyre::task_context&) noexcept -> std::coroutine_handle<> {
      return std::noop_coroutine();
    };
    gyre::detail::task_access::state(waits).start(context);
  }
  void finish() {
    if (!returned) here.run();
    model::assert_that(returned, "it has ended");
  }

  one_post here;
  gyre::task_context context;
  bool failed = false;
  bool returned = false;
  task<> waits;
};

task<> count(int& to) {
  ++to;
  co_return;
}
task<> fail() {
  throw std::runtime_error("failed");
  co_return;
}

TEST(AsyncScopeModel, JoinComesAfterAllTasksAndMayDestroyTheScope) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 1}, [] {
    one_post one;
    one_post other;
    int first = 0;
    auto scope = std::make_unique<async_scope>(one);
    scope->spawn(count(first));
    scope->spawn(other, fail());
    model::thread runs_one([&] { one.run(); });
    model::thread runs_other([&] { other.run(); });
    joining waits(*scope);
    waits.finish();
    scope.reset();
    model::assert_that(first == 1, "the task has ended");
    model::assert_that(waits.failed, "the error was seen");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(AsyncScopeModel, EveryCoroutineThatJoinsIsResumedOnce) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 1}, [] {
    one_post one;
    int ran = 0;
    async_scope scope(one);
    scope.spawn(count(ran));
    const auto join_once = [&] {
      joining waits(scope);
      waits.finish();
      model::assert_that(ran == 1 && !waits.failed, "after the task");
    };
    model::thread runs([&] { one.run(); });
    model::thread joins_too(join_once);
    join_once();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(AsyncScopeModel, SpawnComesBeforeTheEndOrThrows) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 1}, [] {
    one_post one;
    one_post other;
    int first = 0;
    int second = 0;
    bool admitted = true;
    async_scope scope(one);
    scope.spawn(count(first));
    model::thread runs([&] { one.run(); });
    model::thread spawns([&] {
      try {
        scope.spawn(other, count(second));
      } catch (const std::logic_error&) {
        admitted = false;
        return;
      }
      other.run();
    });
    joining waits(scope);
    waits.finish();
    const int ran = second;
    model::assert_that(first == 1, "the task has ended");
    spawns.join();
    model::assert_that(ran == (admitted ? 1 : 0), "the wait included it");
  });
  EXPECT_TRUE(checked) << checked;
}

}  // namespace

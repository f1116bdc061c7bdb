// SPDX-License-Identifier: Apache-2.0
// Tests of the executor of coroutines without an executor, and of waits in foreign coroutines.
#include <gyre/task/executor.hpp>

#include <gyre/base/operation.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/testing/manual_executor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <coroutine>
#include <exception>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace executor_test {
namespace {

using testing::ElementsAre;

struct calls : gyre::operation {
  explicit calls(std::function<void()> to_call)
      : operation([](operation& self) { static_cast<calls&>(self).what(); }),
        what(std::move(to_call)) {}
  std::function<void()> what;
};

TEST(InlineExecutor, RunsAnOperationBeforePostReturns) {
  bool ran = false;
  calls sets([&] { ran = true; });
  gyre::inline_executor().post(sets);
  EXPECT_TRUE(ran);
  EXPECT_TRUE(gyre::inline_executor().running_here());
  EXPECT_EQ(gyre::inline_executor().timers(), nullptr);
}

TEST(InlineExecutor, RunsWhatAnOperationPostsAfterItInOrder) {
  std::vector<int> log;
  calls second([&] { log.push_back(3); });
  calls third([&] { log.push_back(4); });
  calls first([&] {
    log.push_back(1);
    gyre::inline_executor().post(second);
    gyre::inline_executor().post(third);
    log.push_back(2);
  });
  gyre::inline_executor().post(first);
  EXPECT_THAT(log, ElementsAre(1, 2, 3, 4));
}

TEST(InlineExecutor, RunsAnOperationThatPostsItself) {
  int left = 100'000;
  calls again([&] {
    if (--left > 0) gyre::inline_executor().post(again);
  });
  gyre::inline_executor().post(again);
  EXPECT_EQ(left, 0);
}

TEST(InlineExecutor, HasAQueueForEachThread) {
  std::thread::id ran_on;
  calls inner([&] { ran_on = std::this_thread::get_id(); });
  calls outer([&] {
    std::jthread other([&] { gyre::inline_executor().post(inner); });
    const std::thread::id expected = other.get_id();
    other.join();
    EXPECT_EQ(ran_on, expected);  // without waiting for the end of `outer`
  });
  gyre::inline_executor().post(outer);
}

// A typical foreign coroutine type: starts at once and frees itself.
struct fire_and_forget {
  struct promise_type {
    static fire_and_forget get_return_object() noexcept { return {}; }
    static std::suspend_never initial_suspend() noexcept { return {}; }
    static std::suspend_never final_suspend() noexcept { return {}; }
    static void return_void() noexcept {}
    static void unhandled_exception() noexcept { std::terminate(); }
  };
};

TEST(ForeignCoroutine, WaitsInlineAndCannotBeStopped) {
  bool ended = false;
  auto waits = [](bool& flag) -> fire_and_forget {
    co_await gyre::yield();
    gyre::executor& where = co_await gyre::current_executor();
    EXPECT_EQ(&where, &gyre::inline_executor());
    const gyre::inplace_stop_token token = co_await gyre::current_stop_token();
    EXPECT_FALSE(token.stop_possible());
    flag = true;
  };
  waits(ended);
  EXPECT_TRUE(ended);
}

// A fire_and_forget with a context, so that it can await everything, tasks too.
struct with_context {
  struct promise_type : fire_and_forget::promise_type {
    explicit promise_type(gyre::executor& where, int&) { own.where = &where; }
    static with_context get_return_object() noexcept { return {}; }
    gyre::task_context& context() noexcept { return own; }
    gyre::task_context own;
  };
};

static_assert(gyre::detail::has_context<with_context::promise_type>);
static_assert(!gyre::detail::has_context<fire_and_forget::promise_type>);

gyre::task<int> gives_way_and_returns(int value) {
  co_await gyre::yield();
  co_return value;
}

with_context awaits_a_task(gyre::executor&, int& result) {
  const int first = co_await gives_way_and_returns(40);
  gyre::executor& where = co_await gyre::current_executor();
  co_await gyre::schedule(static_cast<gyre::testing::manual_executor&>(where));
  result = first + 2;
}

TEST(ForeignCoroutine, WithAContextAwaitsTasks) {
  gyre::testing::manual_executor executor;
  int result = 0;
  awaits_a_task(executor, result);
  EXPECT_EQ(executor.run_all(), 2);
  EXPECT_EQ(result, 42);
}

}  // namespace
}  // namespace executor_test

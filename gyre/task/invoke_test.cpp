// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/invoke.hpp>

#include <gyre/task/schedule.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>

namespace invoke_test {
namespace {

using gyre::sync_wait;
using gyre::task;

// Counts its constructions and destructions, which must agree.
struct counted {
  explicit counted(int& balance) noexcept : alive(&balance) { ++*alive; }
  counted(const counted& other) noexcept : alive(other.alive) { ++*alive; }
  counted& operator=(const counted&) = delete;
  ~counted() { --*alive; }
  int* alive;
};

TEST(Invoke, KeepsTheCapturesOfALambda) {
  auto work = gyre::invoke([value = std::make_unique<int>(7)]() -> task<int> {
    co_await gyre::yield();
    co_return *value;
  });
  EXPECT_EQ(sync_wait(std::move(work)), 7);
}

TEST(Invoke, KeepsTheArguments) {
  auto work = gyre::invoke(
      [](const std::unique_ptr<int>& a, std::unique_ptr<int> b, int&& c) -> task<int> {
        co_await gyre::yield();
        co_return *a + *b + c;
      },
      std::make_unique<int>(1), std::make_unique<int>(2), 3);
  EXPECT_EQ(sync_wait(std::move(work)), 6);
}

TEST(Invoke, CallsNothingBeforeItIsAwaited) {
  bool called = false;
  auto call = [&]() -> task<> {
    called = true;
    co_return;
  };
  {
    const auto dropped = gyre::invoke(call);
  }
  EXPECT_FALSE(called);
  sync_wait(gyre::invoke(call));
  EXPECT_TRUE(called);
}

TEST(Invoke, DestroysTheCapturesOnceWhenItIsDone) {
  int alive = 0;
  int seen = 0;
  sync_wait([](int& balance, int& within) -> task<> {
    auto work = gyre::invoke([held = counted(balance), &within]() -> task<> {
      within = *held.alive;
      co_return;
    });
    co_await std::move(work);
    EXPECT_EQ(balance, 0);
  }(alive, seen));
  EXPECT_GE(seen, 1);
  EXPECT_EQ(alive, 0);
}

TEST(Invoke, DestroysTheCapturesOfATaskThatIsNotAwaited) {
  int alive = 0;
  {
    const auto dropped = gyre::invoke([held = counted(alive)]() -> task<> { co_return; });
    EXPECT_EQ(alive, 1);
  }
  EXPECT_EQ(alive, 0);
}

TEST(Invoke, GivesReferences) {
  int value = 1;
  auto refer = [&]() -> task<int&> { co_return value; };
  EXPECT_EQ(&sync_wait(gyre::invoke(refer)), &value);
}

TEST(Invoke, ThrowsWhatTheFunctionOrItsTaskThrows) {
  auto thrower = []() -> task<int> {
    throw std::runtime_error("the task");
    co_return 1;
  };
  EXPECT_THROW(sync_wait(gyre::invoke(thrower)), std::runtime_error);
  auto refuser = []() -> task<int> { throw std::logic_error("the function"); };
  EXPECT_THROW(sync_wait(gyre::invoke(refuser)), std::logic_error);
}

struct server {
  int port = 80;
  task<int> run(int offset) { co_return port + offset; }
};

TEST(Invoke, CallsMembers) {
  server local;
  EXPECT_EQ(sync_wait(gyre::invoke(&server::run, std::ref(local), 1)), 81);
  EXPECT_EQ(sync_wait(gyre::invoke(&server::run, std::make_unique<server>(), 2)), 82);
}

TEST(Invoke, AwaitsTheReturnedAwaitable) {
  struct seven {
    static bool await_ready() noexcept { return true; }
    static void await_suspend(std::coroutine_handle<>) noexcept {}
    static int await_resume() noexcept { return 7; }
  };
  EXPECT_EQ(sync_wait(gyre::invoke([] { return seven{}; })), 7);
}

}  // namespace
}  // namespace invoke_test

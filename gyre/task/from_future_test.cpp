// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/from_future.hpp>

#include <gyre/task/schedule.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <tests/support/thread_executor.hpp>

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

namespace from_future_test {
namespace {

using gyre::from_future;
using gyre::sync_wait;
using gyre::task;
using gyre::test::thread_executor;
using gyre::testing::manual_executor;

TEST(FromFuture, GivesTheValueOfAReadyOneWithoutWaitingElsewhere) {
  manual_executor nowhere;
  std::promise<std::unique_ptr<int>> promise;
  promise.set_value(std::make_unique<int>(3));
  EXPECT_EQ(*sync_wait(from_future(promise.get_future(), nowhere)), 3);
  EXPECT_EQ(nowhere.posts(), 0U);
}

TEST(FromFuture, WaitsOnTheNamedExecutorAndComesBack) {
  thread_executor blocking;
  std::promise<int> promise;
  auto await_it = [](std::future<int> future, gyre::executor& there) -> task<std::thread::id> {
    auto waiting = from_future(std::move(future), there);
    const int value = co_await std::move(waiting);
    EXPECT_EQ(value, 5);
    co_return std::this_thread::get_id();
  };
  std::thread setter;
  auto work = await_it(promise.get_future(), blocking);
  setter = std::thread([&] { promise.set_value(5); });
  EXPECT_EQ(sync_wait(std::move(work)), std::this_thread::get_id());
  setter.join();
}

TEST(FromFuture, RunsWhatIsDeferredThere) {
  thread_executor blocking;
  auto deferred = std::async(std::launch::deferred, [] { return std::this_thread::get_id(); });
  EXPECT_EQ(sync_wait(from_future(std::move(deferred), blocking)), blocking.id());
}

TEST(FromFuture, ThrowsItsException) {
  thread_executor blocking;
  std::promise<void> promise;
  auto waiting = from_future(promise.get_future(), blocking);
  promise.set_exception(std::make_exception_ptr(std::runtime_error("broken")));
  EXPECT_THROW(sync_wait(std::move(waiting)), std::runtime_error);
}

TEST(FromFuture, RefusesAnEmptyOne) {
  thread_executor blocking;
  EXPECT_THROW(sync_wait(from_future(std::future<int>(), blocking)), std::future_error);
}

TEST(FromFuture, GivesTheValueOfASharedOneByReference) {
  thread_executor blocking;
  std::promise<int> promise;
  const std::shared_future<int> future = promise.get_future().share();
  promise.set_value(8);
  EXPECT_EQ(&sync_wait(from_future(future, blocking)), &future.get());
}

TEST(FromFuture, IsTheOtherWayRoundOfSpawnFuture) {
  thread_executor one;
  thread_executor blocking;
  auto seven = []() -> task<int> {
    co_await gyre::yield();
    co_return 7;
  };
  EXPECT_EQ(sync_wait(from_future(gyre::spawn_future(one, seven()), blocking)), 7);
}

}  // namespace
}  // namespace from_future_test

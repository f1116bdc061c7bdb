// SPDX-License-Identifier: Apache-2.0
// Tests of detached coroutines: their start, their errors, and the release of their resources.
#include <gyre/task/spawn.hpp>

#include <gyre/base/slab.hpp>
#include <gyre/task/finally.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <tests/support/destruction_promise.hpp>
#include <tests/support/thread_executor.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <exception>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace spawn_test {
namespace {

using gyre::task;
using gyre::test::this_thread_id;
using gyre::test::thread_executor;
using gyre::testing::manual_executor;

task<> sets(bool& flag) {
  flag = true;
  co_return;
}

task<int> fails(const char* message) {
  throw std::runtime_error(message);
  co_return 0;
}

task<> refuses(const char* message) {
  throw std::runtime_error(message);
  co_return;
}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  }
}

TEST(Spawn, StartsInTheExecutorsQueue) {
  manual_executor executor;
  bool ran = false;
  gyre::spawn(executor, sets(ran));
  EXPECT_FALSE(ran);
  EXPECT_EQ(executor.run_all(), 1);
  EXPECT_TRUE(ran);
}

TEST(Spawn, StartsAlsoWhatIsNoTask) {
  manual_executor executor;
  gyre::spawn(executor, gyre::yield());
  EXPECT_EQ(executor.run_all(), 2);
}

TEST(Spawn, DropsTheResult) {
  manual_executor executor;
  const std::shared_ptr<int> shared = std::make_shared<int>(1);
  auto makes = [](std::shared_ptr<int> from) -> task<std::shared_ptr<int>> { co_return from; };
  gyre::spawn(executor, makes(shared));
  EXPECT_EQ(shared.use_count(), 2);
  executor.run_all();
  EXPECT_EQ(shared.use_count(), 1);
}

TEST(Spawn, RefusesAnEmptyTask) {
  manual_executor executor;
  EXPECT_THROW(gyre::spawn(executor, task<>()), std::logic_error);
  EXPECT_THROW(gyre::spawn(executor, task<int>()), std::logic_error);
  EXPECT_EQ(executor.pending(), 0);
}

TEST(Spawn, ErrorGoesToItsHandlerWhereTheCoroutineEnded) {
  manual_executor executor;
  thread_executor there;
  std::promise<std::string> message;
  std::thread::id handled_on;
  auto fails_there = [](gyre::executor& at) -> task<> {
    co_await gyre::resume_on(at);
    throw std::runtime_error("unhandled");
  };
  gyre::spawn(executor, fails_there(there), {.on_error = [&](std::exception_ptr error) {
                handled_on = this_thread_id();
                message.set_value(message_of(error));
              }});
  executor.run_all();
  EXPECT_EQ(message.get_future().get(), "unhandled");
  EXPECT_EQ(handled_on, there.id());
}

TEST(Spawn, HandlerIsNotCalledWithoutAnErrorAndDiesWithTheCoroutine) {
  manual_executor executor;
  const std::shared_ptr<int> held = std::make_shared<int>(1);
  bool ran = false;
  gyre::spawn(executor, sets(ran), {.on_error = [held](std::exception_ptr) { ADD_FAILURE(); }});
  EXPECT_EQ(held.use_count(), 2);
  executor.run_all();
  EXPECT_EQ(held.use_count(), 1);
}

TEST(SpawnDeathTest, ErrorWithoutAHandlerEndsTheProgramWithItsMessage) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        manual_executor executor;
        gyre::spawn(executor, fails("nobody wants me"));
        executor.run_all();
      },
      "an exception left a detached coroutine: nobody wants me");
}

// finally() ends its coroutine with the error of another one, without a throw.
TEST(SpawnDeathTest, ErrorThatIsPassedOnWithoutAHandlerEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        manual_executor executor;
        bool cleaned = false;
        gyre::spawn(executor, gyre::finally(refuses("passed on"), [&] { return sets(cleaned); }));
        executor.run_all();
      },
      "an exception left a detached coroutine: passed on");
}

TEST(Spawn, IgnoresACancellationThrownOrPassedOn) {
  manual_executor executor;
  const auto held = std::make_shared<int>();
  auto stops = [](std::shared_ptr<int>) -> task<> {
    throw gyre::operation_cancelled();
    co_return;
  };
  bool cleaned = false;
  gyre::spawn(executor, stops(held));
  gyre::spawn(executor, gyre::finally(stops(held), [&] { return sets(cleaned); }));
  executor.run_all();
  EXPECT_TRUE(cleaned);
  EXPECT_EQ(held.use_count(), 1);
}

TEST(Spawn, HandsOverTheStopToken) {
  manual_executor executor;
  gyre::inplace_stop_source source;
  bool stopped = false;
  auto asks = [](bool& flag) -> task<> {
    co_await gyre::yield();
    const gyre::inplace_stop_token token = co_await gyre::current_stop_token();
    flag = token.stop_requested();
  };
  gyre::spawn(executor, asks(stopped), {.stop = source.get_token()});
  executor.run_one();
  source.request_stop();
  executor.run_all();
  EXPECT_TRUE(stopped);
}

// Coroutines start on one thread and end on another: frames and states must return to the slab they
// came from, or every round would take new blocks.
TEST(Spawn, CoroutinesThatEndOnAnotherThreadLeaveNoMemoryBehind) {
  constexpr int rounds = 1000;
  constexpr int each = 100;
  thread_executor there;
  std::size_t held_early = 0;
  for (int round = 0; round < rounds; ++round) {
    std::promise<void> all;
    auto last = std::make_shared<gyre::test::destruction_promise>(all);
    auto ends = [](std::shared_ptr<gyre::test::destruction_promise>) -> task<> { co_return; };
    for (int i = 0; i < each; ++i) gyre::spawn(there, ends(last));
    last.reset();
    all.get_future().wait();
    if (round == 50) held_early = gyre::read_slab_stats().bytes_held;
  }
  EXPECT_LE(gyre::read_slab_stats().bytes_held, held_early + (std::size_t{1} << 20));
}

TEST(SpawnFuture, GivesTheValue) {
  thread_executor there;
  auto makes = []() -> task<std::unique_ptr<int>> { co_return std::make_unique<int>(8); };
  EXPECT_EQ(*gyre::spawn_future(there, makes()).get(), 8);
}

TEST(SpawnFuture, GivesAReference) {
  thread_executor there;
  int variable = 0;
  auto refers = [](int& to) -> task<int&> { co_return to; };
  EXPECT_EQ(&gyre::spawn_future(there, refers(variable)).get(), &variable);
}

TEST(SpawnFuture, TellsThatItHasEnded) {
  thread_executor there;
  bool ran = false;  // not atomic: the future orders it
  gyre::spawn_future(there, sets(ran)).get();
  EXPECT_TRUE(ran);
}

TEST(SpawnFuture, ThrowsWhatTheCoroutineThrew) {
  thread_executor there;
  std::future<int> future = gyre::spawn_future(there, fails("in the future"));
  EXPECT_THROW(future.get(), std::runtime_error);
}

TEST(SpawnFuture, HandsOverTheStopToken) {
  thread_executor there;
  gyre::inplace_stop_source source;
  source.request_stop();
  auto future = gyre::spawn_future(there, gyre::current_stop_token(), source.get_token());
  EXPECT_TRUE(future.get().stop_requested());
}

}  // namespace
}  // namespace spawn_test

// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/stop_when.hpp>

#include <gyre/task/schedule.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>
#include <tests/support/thread_executor.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

namespace stop_when_test {
namespace {

using namespace std::chrono_literals;
using gyre::inplace_stop_source;
using gyre::inplace_stop_token;
using gyre::sleep_for;
using gyre::stop_when;
using gyre::task;
using gyre::test::thread_executor;
using gyre::testing::manual_executor;
using gyre::testing::run_in_virtual_time;

task<bool> was_asked_to_stop() {
  const inplace_stop_token token = co_await gyre::current_stop_token();
  co_return token.stop_requested();
}

std::error_code error_of(auto&& call) {
  try {
    call();
  } catch (const std::system_error& error) {
    return error.code();
  }
  return {};
}

TEST(StopWhen, GivesWhatTheAwaitableGives) {
  inplace_stop_source source;
  EXPECT_EQ(*gyre::sync_wait(stop_when(
                []() -> task<std::unique_ptr<int>> { co_return std::make_unique<int>(3); }(),
                source.get_token())),
            3);
}

TEST(StopWhen, StopsWithItsToken) {
  manual_executor executor;
  inplace_stop_source source;
  const auto work = [](inplace_stop_source& stops, task<> slept) -> task<> {
    co_await stop_when(std::move(slept), stops.get_token());
  };
  std::future<void> result =
      gyre::spawn_future(executor, work(source, []() -> task<> { co_await sleep_for(1h); }()));
  executor.run_all();
  source.request_stop();
  executor.run_all();
  EXPECT_EQ(error_of([&] { result.get(); }), std::errc::operation_canceled);
}

TEST(StopWhen, StopsWithTheCoroutineThatAwaitsIt) {
  for (const bool both : {true, false}) {
    manual_executor executor;
    inplace_stop_source outer;
    inplace_stop_source inner;
    std::future<void> result = gyre::spawn_future(
        executor, stop_when(sleep_for(1h), both ? inner.get_token() : inplace_stop_token()),
        outer.get_token());
    executor.run_all();
    outer.request_stop();
    executor.run_all();
    EXPECT_EQ(error_of([&] { result.get(); }), std::errc::operation_canceled);
  }
}

TEST(StopWhen, ConcernsOnlyWhatItAwaits) {
  inplace_stop_source source;
  source.request_stop();
  EXPECT_FALSE(gyre::sync_wait([](inplace_stop_token token) -> task<bool> {
    const bool inside = co_await stop_when(was_asked_to_stop(), token);
    EXPECT_TRUE(inside);
    co_return co_await was_asked_to_stop();
  }(source.get_token())));
}

TEST(StopWhen, IsOverForTheCoroutineThatCatches) {
  manual_executor executor;
  inplace_stop_source source;
  source.request_stop();
  EXPECT_FALSE(run_in_virtual_time(executor, [](inplace_stop_token token) -> task<bool> {
    EXPECT_TRUE(token.stop_requested());
    try {
      co_await stop_when(sleep_for(1h), token);
      ADD_FAILURE() << "slept on";
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), std::errc::operation_canceled);
    }
    co_return co_await was_asked_to_stop();
  }(source.get_token())));
}

TEST(StopWhen, ItsAwaitableMayGoElsewhere) {
  thread_executor there;
  inplace_stop_source source;
  gyre::sync_wait([](thread_executor& to, inplace_stop_token token) -> task<> {
    co_await stop_when(gyre::resume_on(to), token);
    EXPECT_TRUE(to.running_here());
  }(there, source.get_token()));
}

task<long> many(long count, inplace_stop_token token) {
  long sum = 0;
  for (long i = 0; i < count; ++i) {
    const bool stopped = co_await stop_when(was_asked_to_stop(), token);
    sum += stopped ? 0 : 1;
  }
  co_return sum;
}

TEST(StopWhen, ManyInARowRunInConstantStack) {
  inplace_stop_source source;
  EXPECT_EQ(gyre::sync_wait(many(200'000, source.get_token())), 200'000);
}

TEST(StopWhen, BothSourcesMayStopAtOnce) {
  for (int round = 0; round < 300; ++round) {
    inplace_stop_source outer;
    inplace_stop_source inner;
    std::jthread one([&] { outer.request_stop(); });
    std::jthread other([&] { inner.request_stop(); });
    gyre::sync_wait(stop_when(was_asked_to_stop(), inner.get_token()), outer.get_token());
  }
}

TEST(StopWhen, MayBeDroppedWhileItWaits) {
  gyre::testing::manual_executor executor;
  gyre::inplace_stop_source outer;
  gyre::inplace_stop_source inner;
  gyre::task_context context;
  context.where = &executor;
  context.stop = outer.get_token();
  const auto sleep = []() -> gyre::task<> { co_await gyre::sleep_for(std::chrono::hours(1)); };
  auto work = stop_when(sleep(), inner.get_token());
  gyre::detail::task_access::state(work).start(context);
  executor.run_all();
  work = {};
  outer.request_stop();
  EXPECT_EQ(executor.run_all(), 0U);
}

}  // namespace
}  // namespace stop_when_test

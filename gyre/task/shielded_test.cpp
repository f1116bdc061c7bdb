// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/shielded.hpp>

#include <gyre/task/as_expected.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <expected>
#include <memory>
#include <system_error>
#include <utility>

namespace shielded_test {

using namespace std::chrono_literals;
using gyre::inplace_stop_source;
using gyre::shielded;
using gyre::sleep_for;
using gyre::task;
using gyre::testing::manual_executor;
using gyre::testing::run_in_virtual_time;

task<> sleeps(std::chrono::nanoseconds duration) { co_await sleep_for(duration); }

task<bool> is_asked_to_stop() {
  const gyre::inplace_stop_token stop = co_await gyre::current_stop_token();
  co_return stop.stop_requested();
}

TEST(Shielded, WaitsAlthoughAStopWasRequested) {
  manual_executor executor;
  inplace_stop_source stop;
  stop.request_stop();
  const gyre::steady_time begin = executor.now();
  run_in_virtual_time(executor, shielded(sleep_for(1h)), stop.get_token());
  EXPECT_GE(executor.now() - begin, 1h);
}

TEST(Shielded, TheNextWaitSeesTheStopAgain) {
  manual_executor executor;
  inplace_stop_source stop;
  auto work = [](inplace_stop_source& source) -> task<bool> {
    EXPECT_FALSE(co_await is_asked_to_stop());
    source.request_stop();
    const bool inside = co_await shielded(is_asked_to_stop());
    EXPECT_FALSE(inside);
    co_return co_await is_asked_to_stop();
  };
  EXPECT_TRUE(run_in_virtual_time(executor, work(stop), stop.get_token()));
}

TEST(Shielded, ShieldsWhatRunsBesideItToo) {
  manual_executor executor;
  inplace_stop_source stop;
  stop.request_stop();
  const gyre::steady_time begin = executor.now();
  run_in_virtual_time(
      executor, [](task<> both) -> task<> { co_await std::move(both); }(shielded([]() -> task<> {
        co_await gyre::when_all(sleeps(1h), sleeps(2h));
      }())),
      stop.get_token());
  EXPECT_GE(executor.now() - begin, 2h);
}

TEST(Shielded, LimitStopsIt) {
  manual_executor executor;
  inplace_stop_source stop;
  stop.request_stop();
  const gyre::steady_time begin = executor.now();
  const std::expected<void, std::error_code> result = run_in_virtual_time(
      executor, gyre::as_expected(shielded(sleep_for(2h), 1h)), stop.get_token());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error(), std::errc::timed_out);
  EXPECT_GE(executor.now() - begin, 1h);
  EXPECT_LT(executor.now() - begin, 2h);
}

TEST(Shielded, GivesWhatTheAwaitableGives) {
  int value = 1;
  auto refer = [](int& to) -> task<int&> { co_return to; };
  EXPECT_EQ(&gyre::sync_wait(shielded(refer(value))), &value);
  auto make = []() -> task<std::unique_ptr<int>> { co_return std::make_unique<int>(3); };
  EXPECT_EQ(*gyre::sync_wait(shielded(make())), 3);
}

}  // namespace shielded_test

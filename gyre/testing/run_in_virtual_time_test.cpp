// SPDX-License-Identifier: Apache-2.0
#include <gyre/testing/run_in_virtual_time.hpp>

#include <gyre/sync/event.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/with_timeout.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <system_error>

namespace run_in_virtual_time_test {
namespace {

using namespace std::chrono_literals;
using gyre::testing::manual_executor;
using gyre::testing::run_in_virtual_time;

gyre::task<int> answer_after(std::chrono::nanoseconds delay) {
  co_await gyre::sleep_for(delay);
  co_return 42;
}

gyre::task<> fails_after(std::chrono::nanoseconds delay) {
  co_await gyre::sleep_for(delay);
  throw std::runtime_error("expected");
}

gyre::task<> waits_for(gyre::manual_reset_event& event) { co_await event.wait(); }

gyre::task<> ticks_for_ever() {
  for (;;) co_await gyre::sleep_for(24h);
}

TEST(RunInVirtualTime, ReturnsTheResult) {
  EXPECT_EQ(run_in_virtual_time(answer_after(0s)), 42);
  EXPECT_EQ(run_in_virtual_time(answer_after(24h)), 42);
}

TEST(RunInVirtualTime, ExactlyTheTimeThatTheCoroutineNeedsPasses) {
  manual_executor executor;
  const gyre::steady_time begin = executor.now();
  run_in_virtual_time(executor, answer_after(24h));
  EXPECT_EQ(executor.now() - begin, 24h);
}

TEST(RunInVirtualTime, RethrowsTheException) {
  EXPECT_THROW(run_in_virtual_time(fails_after(1h)), std::runtime_error);
}

TEST(RunInVirtualTime, AStopEndsTheCoroutine) {
  gyre::inplace_stop_source source;
  source.request_stop();
  EXPECT_THROW(run_in_virtual_time(answer_after(1h), source.get_token()), std::system_error);
}

TEST(RunInVirtualTime, ReportsACoroutineThatNothingCanResume) {
  gyre::manual_reset_event never;
  manual_executor executor;
  gyre::inplace_stop_source source;
  EXPECT_THROW(run_in_virtual_time(executor, waits_for(never), source.get_token()),
               std::logic_error);
  source.request_stop();  // so that the coroutine ends
  executor.run_all();
}

TEST(RunInVirtualTime, ReportsACoroutineThatSleepsForEver) {
  manual_executor executor;
  gyre::inplace_stop_source source;
  EXPECT_THROW(run_in_virtual_time(executor, gyre::sleep_for(std::chrono::nanoseconds::max()),
                                   source.get_token()),
               std::logic_error);
  source.request_stop();
  executor.run_all();
}

TEST(RunInVirtualTime, ReportsACoroutineThatTicksForEver) {
  manual_executor executor;
  gyre::inplace_stop_source source;
  EXPECT_THROW(run_in_virtual_time(executor, ticks_for_ever(), source.get_token()),
               std::logic_error);
  source.request_stop();
  executor.run_all();
}

}  // namespace
}  // namespace run_in_virtual_time_test

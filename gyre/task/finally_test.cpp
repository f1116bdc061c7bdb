// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/finally.hpp>

#include <gyre/task/schedule.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace finally_test {

using namespace std::chrono_literals;
using gyre::inplace_stop_source;
using gyre::sleep_for;
using gyre::task;
using gyre::testing::manual_executor;
using gyre::testing::run_in_virtual_time;

task<> sleeps(std::chrono::nanoseconds duration) { co_await sleep_for(duration); }

task<> note(std::string& log, char what) {
  co_await gyre::yield();
  log += what;
}

task<int> note_and_give(std::string& log, int value) {
  co_await note(log, 'b');
  co_return value;
}

task<> note_and_throw(std::string& log, const char* message) {
  co_await note(log, 'b');
  throw std::runtime_error(message);
}

std::string message_of(auto&& call) {
  try {
    call();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "nothing";
}

TEST(Finally, CleansUpAfterSuccessAndKeepsTheResult) {
  std::string log;
  EXPECT_EQ(gyre::sync_wait(gyre::finally(note_and_give(log, 7), note(log, 'c'))), 7);
  EXPECT_EQ(log, "bc");
  int value = 1;
  auto refer = [](int& to) -> task<int&> { co_return to; };
  EXPECT_EQ(&gyre::sync_wait(gyre::finally(refer(value), note(log, 'd'))), &value);
  auto make = []() -> task<std::unique_ptr<int>> { co_return std::make_unique<int>(3); };
  EXPECT_EQ(*gyre::sync_wait(gyre::finally(make(), note(log, 'e'))), 3);
  EXPECT_EQ(log, "bcde");
}

TEST(Finally, CallsAFunctionWhenTheBodyHasEnded) {
  std::string log;
  auto clean_up = [&log] { return note(log, 'c'); };
  gyre::sync_wait(gyre::finally(note(log, 'b'), clean_up));
  auto plain = [&log] { log += 'p'; };
  gyre::sync_wait(gyre::finally(note(log, 'b'), plain));
  EXPECT_EQ(log, "bcbp");
}

TEST(Finally, CleansUpAfterAnErrorAndThrowsIt) {
  std::string log;
  EXPECT_EQ(message_of([&] {
              gyre::sync_wait(gyre::finally(note_and_throw(log, "body"), note(log, 'c')));
            }),
            "body");
  EXPECT_EQ(log, "bc");
}

TEST(Finally, CleansUpUndisturbedAfterAStop) {
  manual_executor executor;
  inplace_stop_source stop;
  stop.request_stop();
  std::string log;
  auto clean_up = [&log]() -> task<> {
    co_await sleep_for(1h);
    log += 'c';
  };
  auto work = gyre::finally(sleeps(24h), clean_up);
  const gyre::steady_time begin = executor.now();
  EXPECT_THROW(run_in_virtual_time(executor, std::move(work), stop.get_token()), std::system_error);
  EXPECT_EQ(log, "c");
  EXPECT_GE(executor.now() - begin, 1h);
  EXPECT_LT(executor.now() - begin, 24h);
}

TEST(Finally, ErrorOfTheCleanUpIsThrownUnlessTheBodyFailed) {
  std::string log;
  EXPECT_EQ(message_of([&] {
              gyre::sync_wait(gyre::finally(note(log, 'b'), note_and_throw(log, "clean-up")));
            }),
            "clean-up");
  EXPECT_EQ(message_of([&] {
              gyre::sync_wait(
                  gyre::finally(note_and_throw(log, "body"), note_and_throw(log, "clean-up")));
            }),
            "body");
  EXPECT_EQ(log, "bbbb");
}

}  // namespace finally_test

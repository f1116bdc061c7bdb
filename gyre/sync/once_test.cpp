// SPDX-License-Identifier: Apache-2.0
// Tests of call_once for coroutines.
#include <gyre/sync/once.hpp>

#include <gyre/sync/event.hpp>
#include <gyre/sync/sync_test_support.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <tests/support/thread_executor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

namespace once_test {
namespace {

using gyre::call_once;
using gyre::inplace_stop_source;
using gyre::manual_reset_event;
using gyre::once_flag;
using gyre::task;
using gyre::test::started;
using gyre::test::thread_executor;
using gyre::test::unless_sanitized;
using gyre::testing::manual_executor;

static_assert(sizeof(once_flag) == 24);
constinit once_flag static_flag;  // needs no start-up code

TEST(CallOnce, CallsAFunctionOnce) {
  int calls = 0;
  auto call = [&] { ++calls; };
  EXPECT_FALSE(static_flag.done());
  gyre::sync_wait(call_once(static_flag, call));
  EXPECT_TRUE(static_flag.done());
  gyre::sync_wait(call_once(static_flag, call));
  EXPECT_EQ(calls, 1);
}

TEST(CallOnce, AwaitsWhatTheFunctionReturns) {
  once_flag flag;
  bool ended = false;
  auto call = [&]() -> task<int> {
    co_await gyre::yield();
    ended = true;
    co_return 1;
  };
  gyre::sync_wait(call_once(flag, call));
  EXPECT_TRUE(ended);
}

TEST(CallOnce, AcceptsAFunctionThatCannotBeCopied) {
  once_flag flag;
  int got = 0;
  gyre::sync_wait(
      call_once(flag, [value = std::make_unique<int>(42), &got]() mutable { got = *value; }));
  EXPECT_EQ(got, 42);
}

class CallOnceTogether : public testing::Test {
 protected:
  task<> attempt() {
    auto call = [this]() -> task<> {
      ++attempts;
      co_await may_end.wait();
      if (attempts <= failures) throw std::logic_error("attempt");
    };
    try {
      co_await call_once(flag, call);
      ++passed;
    } catch (const std::logic_error&) {
      ++failed;
    } catch (const gyre::operation_cancelled&) {
      ++cancelled;
    }
  }

  manual_executor here;
  once_flag flag;
  manual_reset_event may_end;
  int failures = 0;
  int attempts = 0;
  int passed = 0;
  int failed = 0;
  int cancelled = 0;
};

TEST_F(CallOnceTogether, OthersWaitForTheAttempt) {
  started first(here, attempt());
  started second(here, attempt());
  started third(here, attempt());
  EXPECT_EQ(attempts, 1);
  EXPECT_FALSE(flag.done());
  may_end.set();
  here.run_all();
  EXPECT_EQ(attempts, 1);
  EXPECT_EQ(passed, 3);
}

TEST_F(CallOnceTogether, FailedAttemptLetsTheNextTry) {
  failures = 2;
  started first(here, attempt());
  started second(here, attempt());
  started third(here, attempt());
  started fourth(here, attempt());
  may_end.set();
  here.run_all();
  EXPECT_EQ(attempts, 3);
  EXPECT_EQ(failed, 2);
  EXPECT_EQ(passed, 2);
  EXPECT_TRUE(flag.done());
}

TEST_F(CallOnceTogether, FailedAttemptWithoutOthersCanBeRepeated) {
  failures = 1;
  may_end.set();
  started first(here, attempt());
  EXPECT_EQ(failed, 1);
  EXPECT_FALSE(flag.done());
  started second(here, attempt());
  EXPECT_EQ(passed, 1);
}

TEST_F(CallOnceTogether, CancelledAttemptLetsTheNextTry) {
  inplace_stop_source source;
  started first(here, attempt(), source.get_token());
  started second(here, attempt());
  source.request_stop();
  here.run_all();
  EXPECT_EQ(cancelled, 1);
  EXPECT_EQ(attempts, 2);
  may_end.set();
  here.run_all();
  EXPECT_EQ(passed, 1);
}

TEST_F(CallOnceTogether, CancelledWaitLeavesTheAttemptAlone) {
  inplace_stop_source source;
  started first(here, attempt());
  started second(here, attempt(), source.get_token());
  source.request_stop();
  here.run_all();
  EXPECT_EQ(cancelled, 1);
  may_end.set();
  here.run_all();
  EXPECT_EQ(passed, 1);
  EXPECT_EQ(attempts, 1);
}

TEST_F(CallOnceTogether, DestroyedAttemptLetsTheNextTry) {
  started first(here, attempt());
  started second(here, attempt());
  first.drop();
  here.run_all();
  EXPECT_EQ(attempts, 2);
  may_end.set();
  here.run_all();
  EXPECT_EQ(passed, 1);
}

TEST(CallOnce, SucceedsOnceForSeveralThreads) {
  const int rounds = unless_sanitized(5'000);
  thread_executor threads[2];
  for (int i = 0; i < rounds; ++i) {
    once_flag flag;
    inplace_stop_source source;
    int attempts = 0;
    int made = 0;
    auto call = [&]() -> task<> {
      if (++attempts == 1) throw std::logic_error("the first fails");
      co_await gyre::yield();
      ++made;
    };
    auto asks = [&]() -> task<> {
      try {
        co_await call_once(flag, call);
        EXPECT_EQ(made, 1);
      } catch (const std::logic_error&) {
      } catch (const gyre::operation_cancelled&) {
      }
    };
    std::vector<std::future<void>> ends;
    for (int each = 0; each < 6; ++each) {
      const auto stop = each < 2 ? source.get_token() : gyre::inplace_stop_token();
      ends.push_back(gyre::spawn_future(threads[each % 2], asks(), stop));
    }
    source.request_stop();
    for (auto& end : ends) end.get();
    EXPECT_TRUE(flag.done());
    EXPECT_EQ(made, 1);
  }
}

}  // namespace
}  // namespace once_test

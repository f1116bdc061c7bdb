// SPDX-License-Identifier: Apache-2.0
// Tests of the events beyond what wait_test.cpp tests of all primitives.
#include <gyre/sync/event.hpp>

#include <gyre/sync/sync_test_support.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <tests/support/thread_executor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <future>
#include <memory>
#include <utility>
#include <vector>

namespace event_test {
namespace {

using gyre::auto_reset_event;
using gyre::manual_reset_event;
using gyre::task;
using gyre::test::started;
using gyre::test::thread_executor;
using gyre::test::unless_sanitized;
using gyre::testing::manual_executor;
using ::testing::ElementsAre;

static_assert(sizeof(manual_reset_event) == 24 && sizeof(auto_reset_event) == 24);
// In the frame of each coroutine that waits.
static_assert(gyre::detail::records_backtraces ||
              sizeof(manual_reset_event::wait_operation) == 8 * sizeof(void*));
constinit manual_reset_event static_event(true);  // needs no start-up code
constinit auto_reset_event static_auto_event;

template <class Event>
task<> waits(Event& event, std::vector<int>& order, int number) {
  co_await event.wait();
  order.push_back(number);
}

TEST(ManualResetEvent, StaysSetUntilItIsReset) {
  EXPECT_TRUE(static_event.is_set());
  gyre::sync_wait(static_event.wait());
  EXPECT_TRUE(static_event.is_set());
  static_event.reset();
  EXPECT_FALSE(static_event.is_set());
  static_event.set();
}

TEST(ManualResetEvent, WakesAllInTheOrderOfComing) {
  manual_executor here;
  manual_reset_event event;
  std::vector<int> order;
  started first(here, waits(event, order, 1));
  started second(here, waits(event, order, 2));
  started third(here, waits(event, order, 3));
  event.set();
  event.reset();
  started late(here, waits(event, order, 4));
  here.run_all();
  EXPECT_THAT(order, ElementsAre(1, 2, 3)) << "all who waited, and nobody else";
}

// The waiters are completed from both ends of their list.
TEST(ManualResetEvent, WakesAnyNumberInTheOrderOfComing) {
  for (int count = 0; count < 10; ++count) {
    for (const bool alternates : {false, true}) {
      manual_executor one;
      manual_executor other;
      manual_reset_event event;
      std::vector<int> order_of_one;
      std::vector<int> order_of_other;
      std::vector<int> expected_of_one;
      std::vector<int> expected_of_other;
      std::deque<started> waiters;
      for (int i = 0; i < count; ++i) {
        const bool is_other = alternates && i % 2 == 1;
        waiters.emplace_back(is_other ? other : one,
                             waits(event, is_other ? order_of_other : order_of_one, i));
        (is_other ? expected_of_other : expected_of_one).push_back(i);
      }
      event.set();
      one.run_all();
      other.run_all();
      EXPECT_EQ(order_of_one, expected_of_one);
      EXPECT_EQ(order_of_other, expected_of_other);
    }
  }
}

TEST(ManualResetEvent, MayBeDestroyedByWhoFindsItSet) {
  const int rounds = unless_sanitized(10'000);
  thread_executor one;
  thread_executor other;
  auto sets = [](manual_reset_event& event) -> task<> {
    event.set();
    co_return;
  };
  auto destroys = [](std::unique_ptr<manual_reset_event> mine) -> task<> {
    co_await mine->wait();
    mine.reset();
  };
  for (int i = 0; i < rounds; ++i) {
    auto event = std::make_unique<manual_reset_event>();
    auto first = gyre::spawn_future(one, sets(*event));
    auto second = gyre::spawn_future(other, destroys(std::move(event)));
    first.get();
    second.get();
  }
}

TEST(AutoResetEvent, LetsOnePassForEachSet) {
  manual_executor here;
  std::vector<int> order;
  started first(here, waits(static_auto_event, order, 1));
  started second(here, waits(static_auto_event, order, 2));
  static_auto_event.set();
  EXPECT_FALSE(static_auto_event.is_set()) << "the first has it";
  here.run_all();
  EXPECT_THAT(order, ElementsAre(1));
  static_auto_event.set();
  here.run_all();
  EXPECT_THAT(order, ElementsAre(1, 2));
}

TEST(AutoResetEvent, CountsToOne) {
  auto_reset_event event;
  event.set();
  event.set();
  EXPECT_TRUE(event.try_wait());
  EXPECT_FALSE(event.try_wait());
  event.set();
  event.reset();
  EXPECT_FALSE(event.try_wait());
}

// If each coroutine resumed within the other's set(), the stack would overflow.
TEST(AutoResetEvent, PingPongNeedsNoStack) {
  const int turns = unless_sanitized(1'000'000);
  auto_reset_event ping;
  auto_reset_event pong;
  int returned = 0;
  auto answers = [&]() -> task<> {
    for (int i = 0; i < turns; ++i) {
      co_await ping.wait();
      pong.set();
    }
  };
  auto plays = [&]() -> task<> {
    gyre::executor& here = co_await gyre::current_executor();
    gyre::spawn(here, answers());
    for (int i = 0; i < turns; ++i) {
      ping.set();
      co_await pong.wait();
      ++returned;
    }
  };
  gyre::sync_wait(plays());
  EXPECT_EQ(returned, turns);
}

TEST(AutoResetEvent, PingPongBetweenThreadsLosesNothing) {
  const int turns = unless_sanitized(20'000);
  auto_reset_event ping;
  auto_reset_event pong;
  auto serves = [&]() -> task<> {
    for (int i = 0; i < turns; ++i) {
      ping.set();
      co_await pong.wait();
    }
  };
  auto returns = [&]() -> task<int> {
    int returned = 0;
    for (; returned < turns; ++returned) {
      co_await ping.wait();
      pong.set();
    }
    co_return returned;
  };
  thread_executor one;
  thread_executor other;
  auto first = gyre::spawn_future(one, serves());
  auto second = gyre::spawn_future(other, returns());
  first.get();
  EXPECT_EQ(second.get(), turns);
}

}  // namespace
}  // namespace event_test

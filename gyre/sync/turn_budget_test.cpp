// SPDX-License-Identifier: Apache-2.0
// Tests of the cooperative budget: a coroutine whose waits are always over at once gives way.
#include <gyre/sync/channel.hpp>

#include <gyre/pool/thread_pool.hpp>
#include <gyre/sync/broadcast.hpp>
#include <gyre/sync/mutex.hpp>
#include <gyre/sync/select.hpp>
#include <gyre/sync/sync_test_support.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/testing/manual_executor.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <exception>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

namespace turn_budget_test {
namespace {

using namespace std::chrono_literals;
using gyre::channel;
using gyre::inplace_stop_source;
using gyre::mutex;
using gyre::task;
using gyre::test::started;
using gyre::testing::manual_executor;

constexpr unsigned waits_per_turn = 256;
// Far more than a turn has.
constexpr unsigned many = 10 * waits_per_turn;

// How many waits a coroutine has finished when a task behind it in the queue runs.
template <class Wait>
unsigned waits_before_the_next_task(Wait wait) {
  manual_executor executor;
  unsigned finished = 0;
  unsigned seen = 0;
  auto never_waits = [](Wait& each, unsigned& count) -> task<> {
    for (; count < many; ++count) co_await each();
  };
  auto looks = [](const unsigned& count, unsigned& result) -> task<> {
    result = count;
    co_return;
  };
  gyre::spawn(executor, never_waits(wait, finished));
  gyre::spawn(executor, looks(finished, seen));
  executor.run_all();
  EXPECT_EQ(finished, many);
  return seen;
}

TEST(TurnBudget, ChannelThatIsNeverEmptyGivesWay) {
  gyre::unbounded_channel<unsigned> values;
  for (unsigned value = 0; value < many; ++value) values.send(value);
  unsigned next = 0;
  EXPECT_LE(waits_before_the_next_task([&]() -> task<> {
              const std::optional<unsigned> value = co_await values.receive();
              EXPECT_EQ(value, next++);
            }),
            waits_per_turn);
}

TEST(TurnBudget, ChannelThatIsNeverFullGivesWay) {
  channel<int> values(many);
  EXPECT_LE(waits_before_the_next_task([&] { return values.send(1); }), waits_per_turn);
  std::size_t sent = 0;
  while (values.try_receive()) ++sent;
  EXPECT_EQ(sent, many);
}

TEST(TurnBudget, SelectGivesWay) {
  channel<int> values(many);
  EXPECT_LE(waits_before_the_next_task([&]() -> task<> {
              const auto chosen =
                  co_await gyre::select(gyre::on_send(values, 1), gyre::on_timeout(1h));
              EXPECT_EQ(chosen.index(), 0U);
            }),
            waits_per_turn);
  std::size_t sent = 0;
  while (values.try_receive()) ++sent;
  EXPECT_EQ(sent, many);
}

TEST(TurnBudget, CountsThroughAsExpectedAndWithTimeout) {
  channel<int> values(many);
  EXPECT_LE(waits_before_the_next_task([&]() -> task<> {
              const auto sent = co_await gyre::as_expected(values.send(1));
              EXPECT_TRUE(sent);
            }),
            waits_per_turn);
  channel<int> limited(many);
  EXPECT_LE(waits_before_the_next_task(
                [&]() -> task<> { co_await gyre::with_timeout(limited.send(1), 1h); }),
            waits_per_turn);
  channel<int> both(many);
  EXPECT_LE(waits_before_the_next_task([&]() -> task<> {
              const auto sent = co_await gyre::as_expected(gyre::with_timeout(both.send(1), 1h));
              EXPECT_TRUE(sent);
            }),
            waits_per_turn);
}

TEST(TurnBudget, ConsumeBudgetGivesWay) {
  EXPECT_LE(waits_before_the_next_task([] { return gyre::consume_budget(); }), waits_per_turn);
}

TEST(TurnBudget, StoppedLoopOfConsumeBudgetEnds) {
  manual_executor executor;
  inplace_stop_source stop;
  bool stopped = false;
  auto computes = [](bool& ended) -> task<> {
    try {
      for (;;) co_await gyre::consume_budget();
    } catch (const gyre::operation_cancelled&) {
      ended = true;
    }
  };
  gyre::spawn(executor, computes(stopped), {.stop = stop.get_token()});
  executor.run_one();
  EXPECT_FALSE(stopped);
  stop.request_stop();
  executor.run_all();
  EXPECT_TRUE(stopped);
}

TEST(TurnBudget, StopLosesNoValueThatWasReceived) {
  manual_executor executor;
  gyre::unbounded_channel<unsigned> values;
  for (unsigned value = 1; value <= waits_per_turn; ++value) values.send(value);
  inplace_stop_source stop;
  unsigned received = 0;
  auto receives = [](gyre::unbounded_channel<unsigned>& from, unsigned& last) -> task<> {
    while (last < waits_per_turn) {
      const std::optional<unsigned> value = co_await from.receive();
      last = value.value_or(0);
    }
  };
  gyre::spawn(executor, receives(values, received), {.stop = stop.get_token()});
  executor.run_one();
  EXPECT_EQ(received, waits_per_turn - 1);  // and it has taken the last one
  EXPECT_EQ(values.size(), 0U);
  stop.request_stop();
  executor.run_all();
  EXPECT_EQ(received, waits_per_turn);
}

TEST(TurnBudget, BroadcastThatIsNeverEmptyGivesWay) {
  gyre::broadcast<unsigned> news(many);
  gyre::broadcast_receiver<unsigned> all = news.subscribe();
  for (unsigned value = 0; value < many; ++value) news.send(value);
  EXPECT_LE(waits_before_the_next_task([&]() -> task<> {
              const auto value = co_await all.receive();
              EXPECT_TRUE(value);
            }),
            waits_per_turn);
}

TEST(TurnBudget, InlineExecutorHasNothingToGiveWayTo) {
  auto sends = [](channel<int>& to, unsigned& count) -> task<> {
    for (; count < many; ++count) co_await to.send(1);
  };
  channel<int> values(many);
  unsigned sent = 0;
  const started inline_task(gyre::inline_executor(), sends(values, sent));
  EXPECT_TRUE(inline_task.done());
  EXPECT_EQ(sent, many);
}

// Producers, consumers and a lock that is mostly free, on several threads.
TEST(TurnBudget, LosesNothingOnAPool) {
  gyre::thread_pool pool(3);
  gyre::unbounded_channel<unsigned> values;
  mutex lock;
  unsigned long sum = 0;
  auto sends = [](gyre::unbounded_channel<unsigned>& to) -> task<> {
    for (unsigned value = 1; value <= many; ++value) {
      to.send(value);
      co_await gyre::consume_budget();
    }
  };
  auto receives = [](gyre::unbounded_channel<unsigned>& from, mutex& guarding,
                     unsigned long& into) -> task<> {
    for (unsigned count = 0; count < many; ++count) {
      const std::optional<unsigned> value = co_await from.receive();
      const auto held = co_await guarding.lock();
      into += value.value_or(0);
    }
  };
  auto work = [&]() -> task<> {
    co_await gyre::resume_on(pool);
    std::vector<task<>> tasks;
    for (int pair = 0; pair < 4; ++pair) {
      tasks.push_back(sends(values));
      tasks.push_back(receives(values, lock, sum));
    }
    co_await gyre::when_all(std::move(tasks));
  };
  gyre::sync_wait(work());
  EXPECT_EQ(sum, 4UL * many * (many + 1) / 2);
}

}  // namespace
}  // namespace turn_budget_test

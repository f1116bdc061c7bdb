// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/select.hpp>

#include <gyre/sync/channel.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <tests/support/stubborn_coroutines.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

namespace select_test {
namespace {

using namespace std::chrono_literals;
using gyre::channel;
using gyre::channel_status;
using gyre::on_receive;
using gyre::on_send;
using gyre::on_send_from;
using gyre::on_timeout;
using gyre::task;
using gyre::timed_out;
using gyre::testing::manual_executor;

// The value that one of several channels returned.
struct received {
  std::size_t index = 99;
  std::optional<int> value;
};
task<> receive_first(channel<int>& a, channel<int>& b, received& result) {
  auto chosen = co_await gyre::select(on_receive(a), on_receive(b));
  result.index = chosen.index();
  std::visit([&](const std::optional<int>& value) { result.value = value; }, chosen);
}

TEST(Select, TakesWhatIsThereAndLeavesTheRest) {
  channel<int> a(1);
  channel<int> b(1);
  EXPECT_EQ(b.try_send(2), channel_status::ok);
  received result;
  gyre::sync_wait(receive_first(a, b, result));
  EXPECT_EQ(result.index, 1U);
  EXPECT_EQ(result.value, 2);

  EXPECT_EQ(a.try_send(1), channel_status::ok);
  EXPECT_EQ(b.try_send(2), channel_status::ok);
  gyre::sync_wait(receive_first(a, b, result));
  channel<int>& other = result.index == 0 ? b : a;
  EXPECT_TRUE(other.try_receive().has_value());
}

TEST(Select, WaitsForTheFirstAndLeavesTheOtherQueues) {
  manual_executor executor;
  channel<int> a(1);
  channel<int> b(1);
  received result;
  gyre::spawn(executor, receive_first(a, b, result));
  executor.run_all();
  EXPECT_EQ(result.index, 99U);
  EXPECT_EQ(b.try_send(2), channel_status::ok);
  EXPECT_EQ(a.try_send(1), channel_status::ok);
  EXPECT_EQ(a.size(), 1U) << "the select has what it waited for";
  executor.run_all();
  EXPECT_EQ(result.index, 1U);
  EXPECT_EQ(result.value, 2);
  EXPECT_EQ(a.try_receive(), 1);
}

TEST(Select, SendsOrReceivesWhicheverComesFirst) {
  manual_executor executor;
  channel<int> in(0);
  channel<std::string> out(0);
  std::string word = "word";
  std::vector<std::size_t> chosen;
  const auto choose = [&]() -> task<> {
    for (int i = 0; i < 2; ++i) {
      auto first = co_await gyre::select(on_receive(in), on_send_from(out, word));
      chosen.push_back(first.index());
    }
  };
  gyre::spawn(executor, choose());
  executor.run_all();
  EXPECT_EQ(in.try_send(1), channel_status::ok);
  executor.run_all();
  EXPECT_EQ(word, "word");
  EXPECT_EQ(out.try_receive(), "word");
  EXPECT_EQ(out.try_receive(), std::unexpected(channel_status::empty));
  executor.run_all();
  EXPECT_THAT(chosen, testing::ElementsAre(0U, 1U));
}

TEST(Select, BothEndsOfOneChannelDoNotServeThemselves) {
  manual_executor executor;
  channel<int> self(0);
  std::size_t chosen = 99;
  const auto choose = [&]() -> task<> {
    auto first = co_await gyre::select(on_receive(self), on_send(self, 5));
    chosen = first.index();
  };
  gyre::spawn(executor, choose());
  executor.run_all();
  EXPECT_EQ(chosen, 99U);
  EXPECT_EQ(self.try_receive(), 5);
  EXPECT_EQ(self.try_send(6), channel_status::full) << "the select is over";
  executor.run_all();
  EXPECT_EQ(chosen, 1U);
}

TEST(Select, TwoSelectsServeEachOtherOnce) {
  manual_executor executor;
  channel<int> one(0);
  channel<int> other(0);
  std::array<std::size_t, 2> chosen{99, 99};
  const auto choose = [](channel<int>& in, channel<int>& out, std::size_t& index) -> task<> {
    auto first = co_await gyre::select(on_receive(in), on_send(out, 1));
    index = first.index();
  };
  gyre::spawn(executor, choose(one, other, chosen[0]));
  gyre::spawn(executor, choose(other, one, chosen[1]));
  executor.run_all();
  EXPECT_NE(chosen[0], 99U);
  EXPECT_EQ(chosen[0], 1 - chosen[1]) << "one sends what the other receives";
}

TEST(Select, ReadyCasesAreChosenEvenly) {
  constexpr int rounds = 3000;
  std::array<channel<int>, 3> channels{channel<int>(1), channel<int>(1), channel<int>(1)};
  // Only the first and the last case are ready: a search from a random start would favour one.
  std::map<std::size_t, int> chosen;
  for (int i = 0; i < rounds; ++i) {
    static_cast<void>(channels[0].try_send(i));
    static_cast<void>(channels[2].try_send(i));
    const auto first =
        gyre::try_select(on_receive(channels[0]), on_receive(channels[1]), on_receive(channels[2]));
    ASSERT_TRUE(first);
    ++chosen[first->index()];
  }
  EXPECT_EQ(chosen[1], 0);
  // The tolerance is six standard deviations.
  EXPECT_NEAR(chosen[0], rounds / 2, 165);
}

TEST(Select, ClosedChannelIsReady) {
  channel<int> a(1);
  channel<int> b(1);
  b.close();
  received result;
  gyre::sync_wait(receive_first(a, b, result));
  EXPECT_EQ(result.index, 1U);
  EXPECT_EQ(result.value, std::nullopt);

  const auto send = [&]() -> task<> { co_await gyre::select(on_receive(a), on_send(b, 1)); };
  EXPECT_THROW(gyre::sync_wait(send()), std::system_error);
}

TEST(Select, ClosedWhileWaitingEndsIt) {
  manual_executor executor;
  channel<int> a(1);
  channel<int> b(1);
  received result;
  gyre::spawn(executor, receive_first(a, b, result));
  executor.run_all();
  a.close();
  b.close();
  executor.run_all();
  EXPECT_EQ(result.index, 0U);
  EXPECT_EQ(result.value, std::nullopt);

  channel<int> hands(0);
  channel<int> quiet(0);
  std::optional<std::error_code> error;
  const auto send = [&]() -> task<> {
    auto chosen = co_await gyre::as_expected(gyre::select(on_receive(quiet), on_send(hands, 1)));
    error = chosen.error();
  };
  gyre::spawn(executor, send());
  executor.run_all();
  hands.close();
  executor.run_all();
  EXPECT_EQ(error, gyre::channel_errc::closed);
}

TEST(Select, TimesOutWhenNothingElseHappens) {
  manual_executor executor;
  channel<int> numbers(1);
  std::vector<std::size_t> chosen;
  const auto wait = [&]() -> task<> {
    for (;;) {
      auto first = co_await gyre::select(on_receive(numbers), on_timeout(1s));
      chosen.push_back(first.index());
      if (first.index() == 0 && !std::get<0>(first)) co_return;
    }
  };
  gyre::spawn(executor, wait());
  executor.run_all();
  EXPECT_EQ(executor.timers_pending(), 1U);
  executor.advance(999ms);
  EXPECT_THAT(chosen, testing::IsEmpty());
  EXPECT_EQ(numbers.try_send(1), channel_status::ok);
  executor.advance(999ms);
  EXPECT_THAT(chosen, testing::ElementsAre(0U)) << "a new select, a new second";
  executor.advance(1ms);
  EXPECT_THAT(chosen, testing::ElementsAre(0U, 1U));
  numbers.close();
  executor.run_all();
  EXPECT_EQ(executor.timers_pending(), 0U);
}

TEST(Select, DeadlineThatHasPassedDoesNotWait) {
  manual_executor executor;
  channel<int> numbers(1);
  std::vector<std::size_t> chosen;
  const auto wait = [&]() -> task<> {
    auto none = co_await gyre::select(on_timeout(1h), on_timeout(0s), on_receive(numbers));
    chosen.push_back(none.index());
    EXPECT_EQ(numbers.try_send(1), channel_status::ok);
    auto some = co_await gyre::select(gyre::on_deadline(executor.now()), on_receive(numbers));
    chosen.push_back(some.index());
  };
  gyre::spawn(executor, wait());
  executor.run_all();
  EXPECT_THAT(chosen, testing::ElementsAre(1U, 1U));
  EXPECT_EQ(executor.timers_pending(), 0U);
}

TEST(Select, TimerIsStartedOnTheExecutorItBelongsTo) {
  manual_executor executor;
  channel<int> values(1);
  std::optional<std::size_t> chosen;
  auto wait = [](channel<int>& from, std::optional<std::size_t>& index) -> task<> {
    auto first = co_await gyre::select(on_receive(from), on_timeout(10ms));
    index = first.index();
  };
  for (const bool times_out : {true, false}) {
    chosen.reset();
    gyre::task_context context;
    context.where = &executor;
    context.finished = [](gyre::task_context&) noexcept -> std::coroutine_handle<> {
      return std::noop_coroutine();
    };
    task<> work = wait(values, chosen);
    gyre::detail::task_access::state(work).start(
        context);  // on a thread that does not run the executor
    EXPECT_EQ(executor.timers_pending(), 0U);
    if (!times_out) {
      EXPECT_EQ(values.try_send(1), channel_status::ok);
    }
    executor.run_all();
    EXPECT_EQ(chosen.has_value(), !times_out);
    EXPECT_EQ(executor.timers_pending(), times_out ? 1U : 0U);
    executor.advance(20ms);
    EXPECT_EQ(chosen, times_out ? 1U : 0U);
  }
}

TEST(Select, TimeoutNeedsAnExecutorWithTimers) {
  channel<int> numbers(1);
  const auto wait = [&]() -> task<std::errc> {
    auto chosen = co_await gyre::as_expected(gyre::select(on_receive(numbers), on_timeout(1s)));
    co_return static_cast<std::errc>(chosen.error().value());
  };
  EXPECT_EQ(gyre::sync_wait(wait()), std::errc::operation_not_supported);
}

TEST(Select, CancelledChoosesNothing) {
  manual_executor executor;
  channel<int> in(1);
  channel<int> out(0);
  gyre::inplace_stop_source source;
  std::optional<std::errc> error;
  bool cancelled = false;
  const auto wait = [&]() -> task<> {
    try {
      auto chosen =
          co_await gyre::as_expected(gyre::select(on_receive(in), on_send(out, 1), on_timeout(1s)));
      if (!chosen) error = static_cast<std::errc>(chosen.error().value());
    } catch (const gyre::operation_cancelled&) {
      cancelled = true;
    }
  };
  gyre::spawn(executor, wait(), {.stop = source.get_token()});
  executor.run_all();
  source.request_stop();
  EXPECT_EQ(in.try_send(1), channel_status::ok);
  EXPECT_EQ(out.try_receive(), std::unexpected(channel_status::empty));
  executor.run_all();
  EXPECT_TRUE(cancelled && !error);
  EXPECT_EQ(in.try_receive(), 1);
  EXPECT_EQ(executor.timers_pending(), 0U);

  cancelled = false;
  gyre::spawn(executor, wait(), {.stop = source.get_token()});
  executor.run_all();
  EXPECT_TRUE(cancelled && !error) << "stopped before it began";
  EXPECT_EQ(executor.timers_pending(), 0U);
}

TEST(Select, EndsALoopThatLogsErrorsWhenItIsStopped) {
  manual_executor executor;
  channel<int> in(1);
  channel<int> out(0);
  const std::vector<std::function<task<>()>> waits{
      [&]() -> task<> { co_await gyre::select(on_receive(in), on_send(out, 1), on_timeout(1h)); },
      [&]() -> task<> { co_await in.receive(); },
      [&]() -> task<> { co_await out.send(1); },
  };
  for (const auto& each : waits) {
    gyre::inplace_stop_source source;
    int errors = 0;
    gyre::spawn(executor, gyre::test::log_errors(each, errors), {.stop = source.get_token()});
    executor.run_all();
    EXPECT_EQ(executor.pending(), 0U);
    source.request_stop();
    executor.run_all();
    EXPECT_EQ(errors, 0);

    bool enough = false;
    int swallowed = 0;
    gyre::test::swallow_until_others_run(executor, each, swallowed, enough, source.get_token());
    executor.run_all();
    EXPECT_TRUE(enough);
    EXPECT_GE(swallowed, 1);
  }
  EXPECT_EQ(executor.timers_pending(), 0U);
}

// A coroutine that the test destroys.
struct eager {
  struct promise_type {
    promise_type(manual_executor& where, channel<int>&, channel<int>&) { own.where = &where; }
    gyre::task_context& context() { return own; }
    eager get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_never initial_suspend() { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
    gyre::task_context own;
  };
  std::coroutine_handle<promise_type> handle;
};
eager choose(manual_executor&, channel<int>& one, channel<int>& other) {
  co_await gyre::select(on_receive(one), on_receive(other), on_timeout(1s));
}

TEST(Select, WaitingCoroutineMayBeDestroyed) {
  manual_executor executor;
  channel<int> a(1);
  channel<int> b(1);
  eager dropped = choose(executor, a, b);
  executor.run_all();
  EXPECT_EQ(executor.timers_pending(), 1U);
  dropped.handle.destroy();
  EXPECT_EQ(executor.timers_pending(), 0U);
  EXPECT_EQ(a.try_send(1), channel_status::ok);
  EXPECT_EQ(a.size(), 1U);
  EXPECT_EQ(b.try_send(1), channel_status::ok);
  EXPECT_EQ(b.size(), 1U);
}

TEST(Select, TrySelectDoesNotWait) {
  channel<int> in(1);
  channel<std::unique_ptr<int>> out(1);
  auto value = std::make_unique<int>(1);
  EXPECT_EQ(out.try_send(std::make_unique<int>(0)), channel_status::ok);
  EXPECT_FALSE(gyre::try_select(on_receive(in), on_send_from(out, value)));
  EXPECT_NE(value, nullptr);
  EXPECT_EQ(in.try_send(3), channel_status::ok);
  const auto chosen = gyre::try_select(on_receive(in), on_send_from(out, value));
  ASSERT_TRUE(chosen);
  EXPECT_EQ(std::get<0>(*chosen), 3);
  EXPECT_NE(value, nullptr);
}

TEST(Select, EveryOrderIsAsLikely) {
  constexpr int rounds = 6000;
  std::map<std::array<std::uint8_t, 3>, int> counts;
  for (int i = 0; i < rounds; ++i) {
    std::array<std::uint8_t, 3> order;
    gyre::detail::shuffle(order);
    ++counts[order];
  }
  EXPECT_EQ(counts.size(), 6U);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, rounds / 6, 180);
}

}  // namespace
}  // namespace select_test

// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/channel.hpp>

#include <gyre/task/as_expected.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_any.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>
#include <tests/support/sanitizers.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

namespace channel_test {
namespace {

using namespace std::chrono_literals;
using gyre::channel;
using gyre::channel_status;
using gyre::task;
using gyre::unbounded_channel;
using gyre::testing::manual_executor;
using gyre::testing::run_in_virtual_time;
using testing::ElementsAre;

// Receives until the end, which it records as -1.
template <class Channel>
task<> receive_all(Channel& from, std::vector<int>& received) {
  while (std::optional<int> value = co_await from.receive()) received.push_back(*value);
  received.push_back(-1);
}

task<> send_all(channel<int>& to, std::vector<int> values, std::vector<int>& sent) {
  for (const int value : values) {
    co_await to.send(value);
    sent.push_back(value);
  }
}

// The error of a send or receive, or nothing.
template <class Operation>
task<> catch_error(Operation operation, std::optional<std::error_code>& error) {
  try {
    co_await std::move(operation);
    error.emplace();
  } catch (const std::system_error& failed) {
    error = failed.code();
  } catch (const gyre::operation_cancelled&) {
    error = std::make_error_code(std::errc::operation_canceled);
  }
}

struct named_job {
  int id = 0;
  std::string name;
  std::unique_ptr<int> payload;
};

// The header's example. ASan sees a member that GCC 12 destroys twice.
TEST(Channel, EmplaceMakesAnAggregateThatIsDestroyedOnce) {
  channel<named_job> jobs(1);
  auto send_two = [](channel<named_job>& to) -> task<> {
    co_await to.emplace(1, "a name that needs memory of its own", std::make_unique<int>(10));
    named_job second{2, "another name that needs memory of its own", std::make_unique<int>(20)};
    co_await to.send_from(second);
    to.close();
  };
  auto receive_all = [](channel<named_job>& from) -> task<int> {
    int sum = 0;
    while (std::optional<named_job> next = co_await from.receive()) {
      sum += next->id + *next->payload + (next->name.starts_with("a") ? 100 : 0);
    }
    co_return sum;
  };
  manual_executor executor;
  int sum = 0;
  gyre::spawn(executor, send_two(jobs));
  auto store = [](task<int> work, int& to) -> task<> { to = co_await std::move(work); };
  gyre::spawn(executor, store(receive_all(jobs), sum));
  executor.run_all();
  EXPECT_EQ(sum, 233);
}

TEST(Channel, ValuesArriveInTheOrderOfTheirSends) {
  channel<int> numbers(3);
  EXPECT_EQ(numbers.try_send(1), channel_status::ok);
  EXPECT_EQ(numbers.try_send(2), channel_status::ok);
  EXPECT_EQ(gyre::sync_wait(numbers.receive()), 1);
  EXPECT_EQ(numbers.try_send(3), channel_status::ok);
  EXPECT_EQ(numbers.try_send(4), channel_status::ok);
  EXPECT_EQ(numbers.size(), 3U);
  EXPECT_EQ(numbers.try_receive(), 2);
  EXPECT_EQ(numbers.try_receive(), 3);
  EXPECT_EQ(numbers.try_receive(), 4);
  EXPECT_EQ(numbers.try_receive(), std::unexpected(channel_status::empty));
}

TEST(Channel, RefusedValueIsNotMovedFrom) {
  channel<std::unique_ptr<int>> pointers(1);
  auto first = std::make_unique<int>(1);
  auto second = std::make_unique<int>(2);
  EXPECT_EQ(pointers.try_send(std::move(first)), channel_status::ok);
  EXPECT_EQ(first, nullptr);
  EXPECT_EQ(pointers.try_send(std::move(second)), channel_status::full);
  EXPECT_NE(second, nullptr);
  pointers.close();
  EXPECT_EQ(pointers.try_send(std::move(second)), channel_status::closed);
  EXPECT_NE(second, nullptr);
}

TEST(Channel, SenderWaitsForRoom) {
  manual_executor executor;
  channel<int> numbers(1);
  std::vector<int> sent;
  gyre::spawn(executor, send_all(numbers, {1, 2, 3}, sent));
  executor.run_all();
  EXPECT_THAT(sent, ElementsAre(1));
  EXPECT_EQ(numbers.try_receive(), 1);
  EXPECT_EQ(numbers.size(), 1U) << "the room is handed to who waits for it";
  EXPECT_THAT(sent, ElementsAre(1)) << "who waits goes on on its own executor";
  executor.run_all();
  EXPECT_THAT(sent, ElementsAre(1, 2));
  EXPECT_EQ(numbers.try_receive(), 2);
  EXPECT_EQ(numbers.try_receive(), 3);
  EXPECT_EQ(numbers.try_receive(), std::unexpected(channel_status::empty));
  executor.run_all();
  EXPECT_THAT(sent, ElementsAre(1, 2, 3));
}

TEST(Channel, ReceiverWaitsForAValueAndIsHandedIt) {
  manual_executor executor;
  channel<int> numbers(4);
  std::vector<int> received;
  gyre::spawn(executor, receive_all(numbers, received));
  executor.run_all();
  EXPECT_EQ(numbers.try_send(7), channel_status::ok);
  EXPECT_EQ(numbers.size(), 0U);
  EXPECT_EQ(numbers.try_receive(), std::unexpected(channel_status::empty)) << "it is taken";
  executor.run_all();
  EXPECT_THAT(received, ElementsAre(7));
  numbers.close();
  executor.run_all();
  EXPECT_THAT(received, ElementsAre(7, -1));
}

TEST(Channel, LongestWaiterIsServedFirst) {
  manual_executor executor;
  channel<int> numbers(1);
  std::vector<int> first;
  std::vector<int> second;
  gyre::spawn(executor, receive_all(numbers, first));
  gyre::spawn(executor, receive_all(numbers, second));
  for (int i = 0; i < 4; ++i) {
    executor.run_all();
    EXPECT_EQ(numbers.try_send(i), channel_status::ok);
  }
  numbers.close();
  executor.run_all();
  EXPECT_THAT(first, ElementsAre(0, 2, -1));
  EXPECT_THAT(second, ElementsAre(1, 3, -1));
}

TEST(Channel, ReceiveAfterCloseDrainsThenEnds) {
  channel<int> numbers(2);
  EXPECT_EQ(numbers.try_send(1), channel_status::ok);
  EXPECT_EQ(numbers.try_send(2), channel_status::ok);
  EXPECT_FALSE(numbers.closed());
  numbers.close();
  numbers.close();
  EXPECT_TRUE(numbers.closed());
  std::vector<int> received;
  gyre::sync_wait(receive_all(numbers, received));
  EXPECT_THAT(received, ElementsAre(1, 2, -1));
  EXPECT_EQ(numbers.try_receive(), std::unexpected(channel_status::closed));
}

TEST(Channel, SendToAClosedChannelSaysSoAndIsEqualToABrokenPipe) {
  channel<int> numbers(1);
  numbers.close();
  std::optional<std::error_code> error;
  gyre::sync_wait(catch_error(numbers.send(1), error));
  ASSERT_EQ(error, gyre::channel_errc::closed);
  EXPECT_EQ(error, std::errc::broken_pipe);
  EXPECT_STREQ(error->category().name(), "gyre.channel");
  EXPECT_EQ(error->message(), "the channel was closed, and takes no more values");
  EXPECT_EQ(std::error_code(7, error->category()).message(), "unknown error");
  EXPECT_NE(std::error_code(7, error->category()), std::errc::broken_pipe);
}

TEST(UnboundedChannel, SendAfterCloseThrowsTheSameError) {
  gyre::unbounded_channel<int> numbers;
  numbers.close();
  try {
    numbers.send(1);
    FAIL() << "not thrown";
  } catch (const std::system_error& thrown) {
    EXPECT_EQ(thrown.code(), gyre::channel_errc::closed);
  }
}

TEST(Channel, ClosingEndsAllWaits) {
  manual_executor executor;
  channel<int> full(1);
  EXPECT_EQ(full.try_send(0), channel_status::ok);
  std::optional<std::error_code> first;
  std::optional<std::error_code> second;
  int kept = 2;
  gyre::spawn(executor, catch_error(full.send(1), first));
  gyre::spawn(executor, catch_error(full.send_from(kept), second));
  channel<int> empty(1);
  std::vector<int> received;
  gyre::spawn(executor, receive_all(empty, received));
  gyre::spawn(executor, receive_all(empty, received));
  executor.run_all();
  full.close();
  empty.close();
  executor.run_all();
  EXPECT_EQ(first, std::errc::broken_pipe);
  EXPECT_EQ(second, std::errc::broken_pipe);
  EXPECT_THAT(received, ElementsAre(-1, -1));
  EXPECT_EQ(full.try_receive(), 0);
  EXPECT_EQ(full.try_receive(), std::unexpected(channel_status::closed));
}

TEST(Channel, CancelledReceiveTakesNothing) {
  manual_executor executor;
  channel<int> numbers(1);
  gyre::inplace_stop_source source;
  std::optional<std::error_code> error;
  gyre::spawn(executor, catch_error(numbers.receive(), error), {.stop = source.get_token()});
  executor.run_all();
  source.request_stop();
  EXPECT_EQ(numbers.try_send(1), channel_status::ok);
  executor.run_all();
  EXPECT_EQ(error, std::errc::operation_canceled);
  EXPECT_EQ(numbers.try_receive(), 1);
}

TEST(Channel, CancelledSendSendsNothingAndLeavesTheValue) {
  manual_executor executor;
  channel<std::string> words(1);
  EXPECT_EQ(words.try_send("first"), channel_status::ok);
  gyre::inplace_stop_source source;
  std::optional<std::error_code> error;
  std::string kept = "a word that is too long to be stored in place";
  gyre::spawn(executor, catch_error(words.send_from(kept), error), {.stop = source.get_token()});
  executor.run_all();
  source.request_stop();
  EXPECT_EQ(words.try_receive(), "first");
  EXPECT_EQ(words.try_receive(), std::unexpected(channel_status::empty));
  executor.run_all();
  EXPECT_EQ(error, std::errc::operation_canceled);
  EXPECT_EQ(kept, "a word that is too long to be stored in place");
}

TEST(Channel, ErrorsComeAsValuesWhereThatIsAskedFor) {
  channel<int> numbers(1);
  const auto use = [&]() -> task<> {
    const auto sent = co_await gyre::as_expected(numbers.send(1));
    EXPECT_TRUE(sent.has_value());
    const auto received = co_await gyre::as_expected(numbers.receive());
    EXPECT_EQ(received.value(), 1);
    numbers.close();
    const auto refused = co_await gyre::as_expected(numbers.send(1));
    EXPECT_EQ(refused.error(), std::errc::broken_pipe);
    const auto ended = co_await gyre::as_expected(numbers.receive());
    EXPECT_EQ(ended.value(), std::nullopt);
  };
  gyre::sync_wait(use());
}

TEST(Channel, StopRequestedBeforeCancelsOnlyWhatHasToWait) {
  manual_executor executor;
  channel<int> numbers(1);
  gyre::inplace_stop_source source;
  source.request_stop();
  std::optional<std::error_code> sent;
  std::optional<std::error_code> refused;
  gyre::spawn(executor, catch_error(numbers.send(1), sent), {.stop = source.get_token()});
  gyre::spawn(executor, catch_error(numbers.send(2), refused), {.stop = source.get_token()});
  executor.run_all();
  EXPECT_EQ(sent, std::error_code());
  EXPECT_EQ(refused, std::errc::operation_canceled);
  EXPECT_EQ(numbers.try_receive(), 1);
  EXPECT_EQ(numbers.try_receive(), std::unexpected(channel_status::empty));
}

TEST(Channel, StopAfterTheHandOverDoesNotTakeTheValueBack) {
  manual_executor executor;
  channel<int> numbers(1);
  gyre::inplace_stop_source source;
  std::vector<int> received;
  gyre::spawn(executor, receive_all(numbers, received),
              {.stop = source.get_token(), .on_error = [](auto) {}});
  executor.run_all();
  EXPECT_EQ(numbers.try_send(1), channel_status::ok);
  source.request_stop();
  executor.run_all();
  EXPECT_THAT(received, ElementsAre(1));
}

// The send ends before the receiver resumes, which already has its value.
TEST(Channel, AReceiveThatLosesARaceGivesItsValue) {
  manual_executor executor;
  channel<int> numbers(1);
  auto race = gyre::spawn_future(executor, gyre::when_any(numbers.receive(), numbers.send(7)));
  executor.run_all();
  const auto ended = race.get();
  EXPECT_EQ(ended.index, 1);
  EXPECT_EQ(std::get<0>(ended.values), std::optional(7));
  EXPECT_EQ(numbers.size(), 0);
}

// The value and the time limit are due at the same time, and the value comes first.
TEST(Channel, AReceiveHasItsValueThoughTheTimeLimitHasPassed) {
  manual_executor executor;
  channel<int> numbers(1);
  const auto send_after = [&](std::chrono::seconds delay) -> task<> {
    co_await gyre::sleep_for(delay);
    co_await numbers.send(7);
  };
  auto sending = gyre::spawn_future(executor, send_after(1s));
  executor.run_all();
  EXPECT_EQ(run_in_virtual_time(executor, gyre::with_timeout(numbers.receive(), 1s)), 7);
  sending.get();
}

TEST(Channel, WaitingCoroutineMayBeDestroyed) {
  channel<int> numbers(1);
  struct eager {
    struct promise_type {
      eager get_return_object() {
        return {std::coroutine_handle<promise_type>::from_promise(*this)};
      }
      std::suspend_never initial_suspend() { return {}; }
      std::suspend_always final_suspend() noexcept { return {}; }
      void return_void() {}
      void unhandled_exception() { std::terminate(); }
    };
    std::coroutine_handle<promise_type> handle;
  };
  const auto receive = [&](int& received) -> eager {
    const std::optional<int> value = co_await numbers.receive();
    received = value.value_or(-1);
  };
  int first = 0;
  int second = 0;
  const eager dropped = receive(first);
  const eager kept = receive(second);
  dropped.handle.destroy();
  EXPECT_EQ(numbers.try_send(5), channel_status::ok);
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 5);
  kept.handle.destroy();
}

TEST(Channel, WithoutRoomPassesFromHandToHand) {
  manual_executor executor;
  channel<int> hands(0);
  EXPECT_EQ(hands.capacity(), 0U);
  EXPECT_EQ(hands.try_send(1), channel_status::full);
  EXPECT_EQ(hands.try_receive(), std::unexpected(channel_status::empty));
  std::vector<int> sent;
  gyre::spawn(executor, send_all(hands, {1, 2}, sent));
  executor.run_all();
  EXPECT_THAT(sent, ElementsAre());
  EXPECT_EQ(hands.try_receive(), 1);
  executor.run_all();
  EXPECT_THAT(sent, ElementsAre(1));
  std::vector<int> received;
  gyre::spawn(executor, receive_all(hands, received));
  executor.run_all();
  EXPECT_THAT(sent, ElementsAre(1, 2));
  EXPECT_EQ(hands.try_send(3), channel_status::ok) << "a receiver waits";
  hands.close();
  executor.run_all();
  EXPECT_THAT(received, ElementsAre(2, 3, -1));
}

TEST(Channel, DestroysTheValuesLeftInIt) {
  const auto counted = std::make_shared<int>();
  {
    channel<std::shared_ptr<int>> bounded(4);
    unbounded_channel<std::shared_ptr<int>> unbounded;
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(bounded.try_send(counted), channel_status::ok);
      unbounded.send(counted);
    }
    EXPECT_TRUE(bounded.try_receive().has_value());
    EXPECT_EQ(counted.use_count(), 6);
  }
  EXPECT_EQ(counted.use_count(), 1);
}

TEST(UnboundedChannel, KeepsTheOrderOverManySegments) {
  unbounded_channel<int> numbers;
  int next = 0;
  // The queue grows and shrinks, by more than a segment and by less.
  for (const int step : {1, 5, 300, 2000, 17, 257, 255, 256}) {
    const int first = next;
    for (int i = 0; i < step; ++i) numbers.send(next++);
    EXPECT_EQ(numbers.size(), static_cast<std::size_t>(step));
    for (int i = first; i < next; ++i) ASSERT_EQ(numbers.try_receive(), i);
    EXPECT_EQ(numbers.try_receive(), std::unexpected(channel_status::empty));
  }
}

TEST(UnboundedChannel, HandsToWhoWaitsAndDrainsWhenClosed) {
  manual_executor executor;
  unbounded_channel<int> numbers;
  std::vector<int> received;
  gyre::spawn(executor, receive_all(numbers, received));
  executor.run_all();
  numbers.send(1);
  numbers.send(2);
  EXPECT_EQ(numbers.size(), 1U);
  numbers.close();
  EXPECT_TRUE(numbers.closed());
  EXPECT_EQ(numbers.try_send(3), channel_status::closed);
  EXPECT_THROW(numbers.send(3), std::system_error);
  executor.run_all();
  EXPECT_THAT(received, ElementsAre(1, 2, -1));
}

// A hand-over between coroutines on the inline executor, which resumes at once, must not nest.
TEST(Channel, HandOversDoNotGrowTheStack) {
  constexpr static int rounds = gyre::test::unless_sanitized(300'000, 5);
  channel<int> there(0);
  channel<int> back(0);
  const auto echo = [](channel<int>& from, channel<int>& to) -> task<> {
    while (std::optional<int> value = co_await from.receive()) {
      const int next = *value + 1;
      co_await to.send(next);
    }
  };
  const auto count = [](channel<int>& to, channel<int>& from) -> task<int> {
    int value = 0;
    while (value < rounds) {
      co_await to.send(value);
      const std::optional<int> answer = co_await from.receive();
      value = answer.value_or(0);
    }
    to.close();
    co_return value;
  };
  gyre::spawn(gyre::inline_executor(), echo(there, back));
  EXPECT_EQ(gyre::sync_wait(count(there, back)), rounds);
}

}  // namespace
}  // namespace channel_test

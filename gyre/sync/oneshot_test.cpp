// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/oneshot.hpp>

#include <gyre/sync/channel.hpp>
#include <gyre/sync/select.hpp>
#include <gyre/sync/sync_test_support.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/shielded.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>
#include <tests/support/thread_executor.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace oneshot_test {
namespace {

using namespace std::chrono_literals;

using gyre::channel_status;
using gyre::make_oneshot;
using gyre::oneshot_receiver;
using gyre::oneshot_sender;
using gyre::task;
using gyre::test::started;
using gyre::test::thread_executor;
using gyre::testing::manual_executor;

static_assert(std::is_nothrow_move_constructible_v<oneshot_sender<int>>);
static_assert(std::is_nothrow_move_assignable_v<oneshot_receiver<std::string>>);
static_assert(!std::is_copy_constructible_v<oneshot_sender<int>>);
static_assert(!std::is_copy_constructible_v<oneshot_receiver<int>>);

// Receives one value; notes how the wait ended.
struct received {
  std::optional<int> value;
  bool ended = false;
  bool cancelled = false;
  std::string error;
};

task<> receive(oneshot_receiver<int>& answer, received& to) {
  try {
    to.value = co_await answer.receive();
    to.ended = true;
  } catch (const gyre::operation_cancelled&) {
    to.cancelled = true;
  } catch (const std::exception& error) {
    to.error = error.what();
  }
}

task<> wait_until_closed(oneshot_sender<int>& reply, bool& closed) {
  co_await reply.closed();
  closed = true;
}

TEST(Oneshot, ValueThatWasSentIsReceivedAtOnce) {
  auto ends = make_oneshot<std::string>();
  EXPECT_TRUE(ends.sender.valid());
  EXPECT_FALSE(ends.sender.is_closed());
  EXPECT_TRUE(ends.sender.send("hello"));
  EXPECT_FALSE(ends.sender.valid()) << "to send consumes the sender";
  const auto take = [&]() -> task<std::optional<std::string>> {
    co_return co_await ends.receiver.receive();
  };
  EXPECT_EQ(gyre::sync_wait(take()), "hello");
  EXPECT_EQ(gyre::sync_wait(take()), std::nullopt) << "a value is received once";
}

TEST(Oneshot, ReceiverWaitsForTheValue) {
  manual_executor executor;
  auto ends = make_oneshot<int>();
  received got;
  gyre::spawn(executor, receive(ends.receiver, got));
  executor.run_all();
  EXPECT_FALSE(got.ended);
  EXPECT_TRUE(ends.sender.send(7));
  EXPECT_FALSE(got.ended) << "resumes on its executor, not within send()";
  executor.run_all();
  EXPECT_EQ(got.value, 7);
}

TEST(Oneshot, SenderThatIsDroppedEndsTheWait) {
  manual_executor executor;
  auto ends = make_oneshot<int>();
  received got;
  gyre::spawn(executor, receive(ends.receiver, got));
  executor.run_all();
  ends.sender = {};
  executor.run_all();
  EXPECT_TRUE(got.ended);
  EXPECT_EQ(got.value, std::nullopt);
}

TEST(Oneshot, ErrorIsThrownByTheWait) {
  auto ends = make_oneshot<int>();
  EXPECT_TRUE(
      ends.sender.send_error(std::make_exception_ptr(std::runtime_error("no such question"))));
  received got;
  gyre::sync_wait(receive(ends.receiver, got));
  EXPECT_EQ(got.error, "no such question");
  EXPECT_EQ(ends.receiver.try_receive(), std::unexpected(channel_status::closed));
}

TEST(Oneshot, StopOfTheSenderIsAnErrorForTheReceiver) {
  auto ends = make_oneshot<int>();
  try {
    throw gyre::operation_cancelled();
  } catch (...) {
    EXPECT_TRUE(ends.sender.send_error(std::current_exception()));
  }
  const auto wait = [](oneshot_receiver<int> answer) -> task<std::error_code> {
    auto result = co_await gyre::as_expected(answer.receive());
    co_return result.error();
  };
  EXPECT_EQ(gyre::sync_wait(wait(std::move(ends.receiver))), std::errc::operation_canceled);
}

TEST(Oneshot, SystemErrorIsAValueForAsExpected) {
  const auto wait = [](oneshot_receiver<int> answer) -> task<std::error_code> {
    auto result = co_await gyre::as_expected(answer.receive());
    co_return result.error();
  };
  const auto choose = [](oneshot_receiver<int> answer) -> task<std::error_code> {
    auto result = co_await gyre::as_expected(gyre::select(gyre::on_receive(answer)));
    co_return result.error();
  };
  const std::error_code refused = std::make_error_code(std::errc::connection_refused);
  for (const auto& receives : {std::function(wait), std::function(choose)}) {
    auto ends = make_oneshot<int>();
    ends.sender.send_error(std::make_exception_ptr(std::system_error(refused)));
    EXPECT_EQ(gyre::sync_wait(receives(std::move(ends.receiver))), refused);
  }
}

TEST(Oneshot, ReceiverThatIsGoneLeavesTheValueToTheSender) {
  auto ends = make_oneshot<std::unique_ptr<int>>();
  ends.receiver = {};
  EXPECT_TRUE(ends.sender.is_closed());
  auto value = std::make_unique<int>(7);
  EXPECT_FALSE(ends.sender.send(std::move(value)));
  ASSERT_NE(value, nullptr) << "not moved from";  // NOLINT(bugprone-use-after-move): tested
  EXPECT_EQ(*value, 7);
}

TEST(Oneshot, SenderWaitsUntilTheReceiverIsGone) {
  manual_executor executor;
  auto ends = make_oneshot<int>();
  bool closed = false;
  gyre::spawn(executor, wait_until_closed(ends.sender, closed));
  executor.run_all();
  EXPECT_FALSE(closed);
  ends.receiver = {};
  executor.run_all();
  EXPECT_TRUE(closed);
  gyre::sync_wait(wait_until_closed(ends.sender, closed));
}

TEST(Oneshot, CarriesAnEventWithoutAValue) {
  const auto wait = [](oneshot_receiver<> done) -> task<bool> {
    const bool sent = co_await done.receive();
    co_return sent;
  };
  auto ends = make_oneshot();
  EXPECT_EQ(ends.receiver.try_receive(), std::unexpected(channel_status::empty));
  EXPECT_TRUE(ends.sender.send());
  EXPECT_TRUE(gyre::sync_wait(wait(std::move(ends.receiver))));
  auto dropped = make_oneshot();
  dropped.sender = {};
  EXPECT_FALSE(gyre::sync_wait(wait(std::move(dropped.receiver))));
  auto tried = make_oneshot();
  tried.sender.send();
  EXPECT_TRUE(tried.receiver.try_receive().has_value());
}

TEST(Oneshot, TryReceiveTellsEmptyFromClosed) {
  auto ends = make_oneshot<int>();
  EXPECT_EQ(ends.receiver.try_receive(), std::unexpected(channel_status::empty));
  const int value = 3;
  ends.sender.send(value);
  EXPECT_EQ(ends.receiver.try_receive(), 3);
  EXPECT_EQ(ends.receiver.try_receive(), std::unexpected(channel_status::closed));
}

TEST(Oneshot, EmptyEndsAreAMisuse) {
  auto ends = make_oneshot<int>();
  ends.sender.send(1);
  EXPECT_THROW(ends.sender.send(2), std::logic_error);
  EXPECT_THROW(static_cast<void>(ends.sender.is_closed()), std::logic_error);
  EXPECT_THROW(static_cast<void>(ends.sender.closed()), std::logic_error);
  oneshot_receiver<int> empty;
  EXPECT_FALSE(empty.valid());
  EXPECT_THROW(static_cast<void>(empty.receive()), std::logic_error);
  EXPECT_THROW(static_cast<void>(empty.try_receive()), std::logic_error);
  EXPECT_THROW(static_cast<void>(gyre::on_receive(empty)), std::logic_error);
}

TEST(Oneshot, StoppedWaitLosesNoValue) {
  manual_executor executor;
  for (const bool sent_first : {false, true}) {
    auto ends = make_oneshot<int>();
    gyre::inplace_stop_source stop;
    received got;
    gyre::spawn(executor, receive(ends.receiver, got), {.stop = stop.get_token()});
    executor.run_all();
    if (sent_first) ends.sender.send(7);
    stop.request_stop();
    if (!sent_first) ends.sender.send(7);
    executor.run_all();
    EXPECT_EQ(got.cancelled, !sent_first);
    EXPECT_EQ(got.value, sent_first ? std::optional(7) : std::nullopt);
    if (got.cancelled) {
      EXPECT_EQ(ends.receiver.try_receive(), 7);
    }
  }
}

TEST(Oneshot, StopEndsTheWaitForTheReceiverToLeave) {
  manual_executor executor;
  auto ends = make_oneshot<int>();
  gyre::inplace_stop_source stop;
  bool cancelled = false;
  const auto wait = [&]() -> task<> {
    try {
      co_await ends.sender.closed();
    } catch (const gyre::operation_cancelled&) {
      cancelled = true;
    }
  };
  gyre::spawn(executor, wait(), {.stop = stop.get_token()});
  executor.run_all();
  stop.request_stop();
  executor.run_all();
  EXPECT_TRUE(cancelled);
  EXPECT_TRUE(ends.sender.send(1));
}

TEST(Oneshot, ReplyThatComesTooLateIsRefused) {
  manual_executor executor;
  oneshot_sender<int> kept;
  const auto ask = [&]() -> task<bool> {
    auto [reply, answer] = make_oneshot<int>();
    kept = std::move(reply);
    auto result = co_await gyre::as_expected(gyre::with_timeout(answer.receive(), 1s));
    co_return !result && result.error() == std::errc::timed_out;
  };
  EXPECT_TRUE(run_in_virtual_time(executor, ask()));
  EXPECT_TRUE(kept.is_closed());
  EXPECT_FALSE(kept.send(1));
}

TEST(Oneshot, BothEndsCanBeSelected) {
  manual_executor executor;
  auto ends = make_oneshot<int>();
  gyre::channel<int> other(1);
  std::optional<int> answer;
  bool gone = false;
  const auto choose = [&]() -> task<> {
    auto chosen = co_await gyre::select(gyre::on_receive(other), gyre::on_receive(ends.receiver));
    answer = std::get<1>(chosen);
  };
  const auto work_until_gone = [&](oneshot_sender<int> reply) -> task<> {
    auto chosen = co_await gyre::select(gyre::on_receive(other), gyre::on_closed(reply));
    gone = chosen.index() == 1;
  };
  gyre::spawn(executor, choose());
  executor.run_all();
  ends.sender.send(5);
  executor.run_all();
  EXPECT_EQ(answer, 5);
  auto unneeded = make_oneshot<int>();
  gyre::spawn(executor, work_until_gone(std::move(unneeded.sender)));
  executor.run_all();
  unneeded.receiver = {};
  executor.run_all();
  EXPECT_TRUE(gone);
}

TEST(Oneshot, CaseThatLostASelectLeavesTheValue) {
  manual_executor executor;
  auto ends = make_oneshot<int>();
  gyre::channel<int> other(1);
  std::size_t index = 9;
  const auto choose = [&]() -> task<> {
    auto chosen = co_await gyre::select(gyre::on_receive(other), gyre::on_receive(ends.receiver));
    index = chosen.index();
  };
  gyre::spawn(executor, choose());
  executor.run_all();
  EXPECT_EQ(other.try_send(1), channel_status::ok);
  ends.sender.send(5);
  executor.run_all();
  EXPECT_EQ(index, 0U);
  EXPECT_EQ(ends.receiver.try_receive(), 5);
}

TEST(Oneshot, WaitingCoroutinesMayBeDestroyed) {
  manual_executor executor;
  auto alive = std::make_shared<int>(1);
  auto ends = make_oneshot<std::shared_ptr<int>>();
  oneshot_sender<std::shared_ptr<int>> reply = std::move(ends.sender);
  const auto wait = [](oneshot_receiver<std::shared_ptr<int>> answer) -> task<> {
    co_await answer.receive();
  };
  started waiting(executor, wait(std::move(ends.receiver)));
  waiting.drop();
  EXPECT_TRUE(reply.is_closed());
  EXPECT_FALSE(reply.send(alive));
  EXPECT_EQ(alive.use_count(), 1);

  auto others = make_oneshot<int>();
  bool closed = false;
  started told(executor, wait_until_closed(others.sender, closed));
  told.drop();
  EXPECT_TRUE(others.sender.send(1));
}

TEST(Oneshot, ValueThatIsNotReceivedIsDestroyed) {
  auto alive = std::make_shared<int>(1);
  {
    auto ends = make_oneshot<std::shared_ptr<int>>();
    EXPECT_TRUE(ends.sender.send(alive));
    EXPECT_EQ(alive.use_count(), 2);
  }
  EXPECT_EQ(alive.use_count(), 1);
}

struct question {
  int number;
  oneshot_sender<int> reply;
};

TEST(Oneshot, AnswersTheQuestionsInAMailbox) {
  manual_executor executor;
  gyre::channel<question> mailbox(4);
  const auto serve = [&]() -> task<> {
    while (std::optional<question> next = co_await mailbox.receive()) {
      next->reply.send(2 * next->number);
    }
  };
  const auto ask = [&](int number) -> task<int> {
    auto [reply, answer] = make_oneshot<int>();
    co_await mailbox.emplace(number, std::move(reply));
    const std::optional<int> doubled = co_await answer.receive();
    co_return doubled.value();
  };
  gyre::spawn(executor, serve());
  EXPECT_EQ(run_in_virtual_time(executor, ask(21)), 42);
  mailbox.close();
  executor.run_all();
}

// The values are on the heap, so that sanitizers find one that is lost or received twice.
using value = std::unique_ptr<int>;

task<> receive_or_stop(oneshot_receiver<value> answer, std::atomic<int>& values,
                       std::atomic<int>& none) {
  try {
    std::optional<value> got = co_await answer.receive();
    got ? values += **got : ++none;
    co_return;
  } catch (const gyre::operation_cancelled&) {  // NOLINT: receives once more below
  }
  auto late = gyre::shielded(answer.receive());
  std::optional<value> got = co_await std::move(late);
  got ? values += **got : ++none;
}

task<> send_or_drop(oneshot_sender<value> reply, bool drop, std::atomic<int>& refused) {
  if (drop) co_return;
  if (!reply.send(std::make_unique<int>(1))) ++refused;
}

TEST(Oneshot, SentAndStoppedAtOnceOnSeveralThreads) {
  constexpr int rounds = 3000;
  std::atomic<int> values{0};
  std::atomic<int> none{0};
  std::atomic<int> refused{0};
  int dropped = 0;
  {
    std::vector<gyre::inplace_stop_source> stops(rounds);
    thread_executor receiver;  // ends last: the others wake its coroutines
    thread_executor sender;
    thread_executor stopper;
    for (int round = 0; round < rounds; ++round) {
      auto ends = make_oneshot<value>();
      const bool drop = round % 8 == 0;
      dropped += drop ? 1 : 0;
      auto& stop = stops.at(static_cast<std::size_t>(round));
      const auto request = [](gyre::inplace_stop_source& source) -> task<> {
        source.request_stop();
        co_return;
      };
      gyre::spawn(receiver, receive_or_stop(std::move(ends.receiver), values, none),
                  {.stop = stop.get_token()});
      gyre::spawn(sender, send_or_drop(std::move(ends.sender), drop, refused));
      if (round % 2 == 0) gyre::spawn(stopper, request(stop));
    }
  }
  EXPECT_EQ(values + none, rounds);
  EXPECT_EQ(values + refused + dropped, rounds) << "a value was lost";
}

TEST(Oneshot, EndsLeaveAtOnceOnSeveralThreads) {
  constexpr int rounds = 3000;
  std::atomic<int> told{0};
  {
    thread_executor sender;  // ends last: the receivers' ends wake its coroutines
    thread_executor receiver;
    const auto wait = [](oneshot_sender<int> reply, std::atomic<int>& count) -> task<> {
      co_await reply.closed();
      EXPECT_FALSE(reply.send(1));
      ++count;
    };
    const auto leave = [](oneshot_receiver<int> answer) -> task<> {
      static_cast<void>(answer.try_receive());
      co_return;
    };
    const auto send = [](oneshot_sender<int> reply) -> task<> {
      reply.send(1);
      co_return;
    };
    for (int round = 0; round < rounds; ++round) {
      auto waiting = make_oneshot<int>();
      gyre::spawn(sender, wait(std::move(waiting.sender), told));
      gyre::spawn(receiver, leave(std::move(waiting.receiver)));
      auto sending = make_oneshot<int>();
      gyre::spawn(sender, send(std::move(sending.sender)));
      gyre::spawn(receiver, leave(std::move(sending.receiver)));
    }
  }
  EXPECT_EQ(told, rounds);
}

}  // namespace
}  // namespace oneshot_test

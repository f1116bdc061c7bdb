// SPDX-License-Identifier: Apache-2.0
// Model tests of channels and select: exactly one of the possible events ends a coroutine's wait,
// no value is lost or duplicated, and nothing touches a wait that is over.
//
// Mutations, tried by hand one at a time, and the tests that fail:
//   claim() always succeeds, or loads and stores in place of the locked instruction:
//     OneOfTwoSenders…, StopAndSend…, CloseAndSend…, ReceiveThatIs…, SendThatIs…
//   a stop decides a wait for one case without its lock: ReceiveThatIs…, SendThatIs…, both others
//     with StopAndSend… in their name
//   the receiver of a oneshot frees it while the sender has the lock: ReceiverThatDoesNot…,
//     StopAndSend… of OneshotModel
//   decide() wakes a coroutine that is not published yet: StopAndSend…, ReceiveThatIs…, SendThatIs…
//   a select leaves its nodes in the queues of the other cases: all of SelectModel
//   a select unlocks between its tries and queueing: OneOfTwo…, TwoSelects…, CloseAndSend…
//   a select publishes after unlocking: all of SelectModel
//   a select takes the locks in the order of the cases: TwoSelects…
//   spin_lock::unlock() stores relaxed: all
//   the coroutine does not wait for an expiring timer, or the timer reports its end relaxed, or
//     after the wake-up: TimeoutAndSend…
// Weaker orders of the wait_core are not found here: the primitives' locks order the same. Its own
// model test finds them.
#include <gyre/sync/select.hpp>

#include <gyre/sync/broadcast.hpp>
#include <gyre/sync/channel.hpp>
#include <gyre/sync/detail/model_visitor_test_support.hpp>
#include <gyre/sync/oneshot.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/stop_token.hpp>
#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>
#include <variant>

namespace {

namespace model = gyre::model;
using gyre::channel;
using gyre::channel_status;
using gyre::on_receive;
using gyre::on_send_from;

// Runs posted operations at once, and has one timer, which another thread lets expire.
struct clocked final : gyre::executor, gyre::timer_service {
  void post(gyre::operation& op) noexcept override { op.execute(); }
  bool running_here() const noexcept override { return true; }
  gyre::timer_service* timers() noexcept override { return this; }

  void start_timer(gyre::timer_operation& timer, gyre::steady_time) noexcept override {
    const std::lock_guard lock(mutex);
    pending = &timer;
  }
  bool cancel_timer(gyre::timer_operation& timer) noexcept override {
    const std::lock_guard lock(mutex);
    if (pending != &timer) return false;
    pending = nullptr;
    return true;
  }
  gyre::steady_time now() const noexcept override { return {}; }

  void let_expire() {
    gyre::timer_operation* due = nullptr;
    {
      const std::lock_guard lock(mutex);
      due = std::exchange(pending, nullptr);
    }
    if (due != nullptr) due->expire();
  }

  std::mutex mutex;
  gyre::timer_operation* pending = nullptr;
};

// A coroutine that starts at once, resumes on the thread that ended its wait, and frees its own
// frame.
struct started {
  struct promise_type {
    template <class... Others>
    explicit promise_type(gyre::inplace_stop_token, clocked& where, Others&...) {
      own.where = &where;
    }
    template <class... Others>
    explicit promise_type(gyre::inplace_stop_token stop, Others&...) {
      own.stop = stop;
    }
    gyre::task_context& context() { return own; }
    started get_return_object() { return {}; }
    std::suspend_never initial_suspend() { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
    gyre::task_context own;
  };
};

// A value is on the heap, so that losing it or taking it twice is found, and is plain memory, so
// that a hand-over without ordering is a race.
using value = std::unique_ptr<int>;
value make(int number) { return std::make_unique<int>(number); }

constexpr std::size_t cancelled = 98;
constexpr std::size_t none = 99;

// The result of a wait, in plain memory.
struct ending {
  std::size_t index = none;
  int number = 0;
};

// Makes an await return the awaiter's result instead of a value or an exception.
template <class Awaiter>
struct expecting {
  Awaiter inner;
  bool await_ready() { return inner.await_ready(); }
  bool await_suspend(std::coroutine_handle<started::promise_type> h) {
    return inner.await_suspend(h);
  }
  auto await_resume() { return gyre::test::result_of(inner); }
};

started receive_either(gyre::inplace_stop_token, channel<value>& one, channel<value>& other,
                       ending& end) {
  auto result = co_await expecting{gyre::select(on_receive(one), on_receive(other))};
  if (result) {
    std::visit([&](const std::optional<value>& got) { end.number = got ? **got : -1; }, *result);
  }
  end.index = result ? result->index() : cancelled;
}

// Receives from `in` or sends into `out`.
started trade(gyre::inplace_stop_token, channel<value>& in, channel<value>& out, ending& end) {
  value own = make(7);
  auto result = co_await gyre::select(on_receive(in), on_send_from(out, own));
  if (result.index() == 0) {
    end.number = **std::get<0>(result);
    model::assert_that(own != nullptr, "what was not sent is still there");
  } else {
    model::assert_that(own == nullptr, "what was sent has gone");
  }
  end.index = result.index();
}

started receive_in_time(gyre::inplace_stop_token, clocked&, channel<value>& from, ending& end) {
  auto result = co_await gyre::select(on_receive(from), gyre::on_timeout(std::chrono::seconds(1)));
  if (result.index() == 0) end.number = **std::get<0>(result);
  end.index = result.index();
}

started receive(gyre::inplace_stop_token, channel<value>& from, ending& end) {
  auto result = co_await expecting{from.receive()};
  if (result && *result) end.number = ***result;
  end.index = result ? 0 : cancelled;
}

started send(gyre::inplace_stop_token, channel<value>& to, ending& end) {
  value own = make(7);
  auto result = co_await expecting{to.send_from(own)};
  model::assert_that(result.has_value() == (own == nullptr), "sent, or still there");
  end.index = result ? 0 : result.error() == std::errc::broken_pipe ? 1 : cancelled;
}

TEST(SelectModel, OneOfTwoSendersServesTheSelect) {
  const auto checked = model::check({.preemptions = 3}, [] {
    channel<value> one(1);
    channel<value> other(1);
    ending end;
    {
      model::thread first([&] { static_cast<void>(one.try_send(make(1))); });
      model::thread second([&] { static_cast<void>(other.try_send(make(2))); });
      receive_either({}, one, other, end);
    }
    model::assert_that(end.index < 2, "the select has a value");
    model::assert_that(end.number == static_cast<int>(end.index) + 1, "that of its channel");
    model::assert_that(one.size() + other.size() == 1, "and the other one is left");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(SelectModel, TwoSelectsServeEachOther) {
  const auto checked = model::check({.preemptions = 3}, [] {
    channel<value> one(0);
    channel<value> other(0);
    ending here;
    ending there;
    {
      model::thread trader([&] { trade({}, one, other, there); });
      trade({}, other, one, here);
    }
    model::assert_that(here.index < 2 && here.index + there.index == 1, "one sends to the other");
    model::assert_that(here.number + there.number == 7, "which receives");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(SelectModel, ThreeSelectsServeEachOtherInPairs) {
  const auto checked = model::check({.preemptions = 1}, [] {
    channel<value> one(0);
    channel<value> other(0);
    ending ends[3];
    {
      model::thread first([&] { trade({}, one, other, ends[0]); });
      model::thread second([&] { trade({}, other, one, ends[1]); });
      trade({}, one, other, ends[2]);
    }
    // The first and the third select have the same cases.
    std::size_t waiting = 0;
    for (const ending& end : ends) waiting += end.index == none ? 1 : 0;
    model::assert_that(waiting == 1, "two of three are served");
    model::assert_that(ends[1].index != none, "among them the only one of its kind");
    model::assert_that(one.try_send(make(1)) == channel_status::ok, "and the third waits");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(SelectModel, StopAndSendAtOnce) {
  const auto checked = model::check({.preemptions = 2, .spurious_failures = 0}, [] {
    channel<value> one(1);
    channel<value> other(1);
    gyre::inplace_stop_source source;
    ending end;
    {
      model::thread stopper([&] { source.request_stop(); });
      model::thread sender([&] { static_cast<void>(one.try_send(make(1))); });
      receive_either(source.get_token(), one, other, end);
    }
    model::assert_that(end.index == 0 || end.index == cancelled, "it has ended");
    model::assert_that((end.index == 0) == (end.number == 1), "with the value or without");
    model::assert_that(one.size() == (end.index == cancelled ? 1U : 0U), "which is not lost");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(SelectModel, CloseAndSendAtOnce) {
  const auto checked = model::check({.preemptions = 3}, [] {
    channel<value> one(1);
    channel<value> other(1);
    ending end;
    {
      model::thread closer([&] { one.close(); });
      model::thread sender([&] { static_cast<void>(other.try_send(make(2))); });
      receive_either({}, one, other, end);
    }
    model::assert_that(end.index < 2, "it has ended");
    model::assert_that(end.number == (end.index == 0 ? -1 : 2), "with the end or the value");
    model::assert_that(other.size() == (end.index == 0 ? 1U : 0U), "which is not lost");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(SelectModel, TimeoutAndSendAtOnce) {
  const auto checked = model::check({.preemptions = 3}, [] {
    channel<value> values(1);
    clocked executor;
    ending end;
    {
      model::thread clock([&] { executor.let_expire(); });
      model::thread sender([&] { static_cast<void>(values.try_send(make(1))); });
      receive_in_time({}, executor, values, end);
    }
    executor.let_expire();
    model::assert_that(end.index < 2, "it has ended");
    model::assert_that((end.index == 0) == (end.number == 1), "with the value or without");
    model::assert_that(values.size() == end.index, "which is not lost");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(ChannelModel, ReceiveThatIsCancelledTakesNothing) {
  const auto checked = model::check({.preemptions = 2, .spurious_failures = 0}, [] {
    channel<value> values(1);
    gyre::inplace_stop_source source;
    ending end;
    {
      model::thread stopper([&] { source.request_stop(); });
      model::thread sender([&] { static_cast<void>(values.try_send(make(1))); });
      receive(source.get_token(), values, end);
    }
    model::assert_that(end.index == 0 || end.index == cancelled, "it has ended");
    model::assert_that(values.size() == (end.index == cancelled ? 1U : 0U), "nothing is lost");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(ChannelModel, SendThatIsCancelledSendsNothing) {
  const auto checked = model::check({.preemptions = 2, .spurious_failures = 0}, [] {
    channel<value> values(1);
    model::assert_that(values.try_send(make(1)) == channel_status::ok, "room for one");
    gyre::inplace_stop_source source;
    ending end;
    bool took = false;
    {
      model::thread stopper([&] { source.request_stop(); });
      model::thread receiver([&] { took = values.try_receive().has_value(); });
      send(source.get_token(), values, end);
    }
    model::assert_that(took, "there was a value");
    model::assert_that(end.index == 0 || end.index == cancelled, "it has ended");
    model::assert_that(values.size() == (end.index == 0 ? 1U : 0U), "sent or not");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(ChannelModel, SenderAndReceiverWaitForEachOther) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    channel<value> hands(0);
    ending sent;
    ending received;
    {
      model::thread sender([&] { send({}, hands, sent); });
      receive({}, hands, received);
    }
    model::assert_that(sent.index == 0 && received.number == 7, "handed over");
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

started receive_and_end(gyre::inplace_stop_token, std::unique_ptr<channel<value>>& values,
                        ending& end) {
  auto result = co_await expecting{values->receive()};
  end.number = ***result;
  values.reset();
}

TEST(ChannelModel, ReceiverOfTheLastValueMayDestroyTheChannel) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    auto values = std::make_unique<channel<value>>(1);
    ending end;
    {
      model::thread sender([&to = *values] { static_cast<void>(to.try_send(make(7))); });
      receive_and_end({}, values, end);
    }
    model::assert_that(end.number == 7 && values == nullptr, "received");
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

using announcement = gyre::broadcast_receiver<std::shared_ptr<int>>;

started hear(gyre::inplace_stop_token, announcement& from, ending& end) {
  auto result = co_await expecting{from.receive()};
  end.index = result ? 0 : cancelled;
  if (result) end.number = *result ? *(*result)->value : -1;
}

TEST(BroadcastModel, EveryReceiverHearsWhatIsSent) {
  const auto checked = model::check({.preemptions = 2}, [] {
    gyre::broadcast<std::shared_ptr<int>> news(1);
    announcement one = news.subscribe();
    announcement other = news.subscribe();
    ending first;
    ending second;
    {
      model::thread sender([&] { news.send(std::make_shared<int>(7)); });
      model::thread listener([&] { hear({}, other, second); });
      hear({}, one, first);
    }
    model::assert_that(first.number == 7 && second.number == 7, "heard");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(BroadcastModel, StopAndSendAtOnce) {
  const auto checked = model::check({.preemptions = 2, .spurious_failures = 0}, [] {
    gyre::broadcast<std::shared_ptr<int>> news(1);
    announcement mine = news.subscribe();
    gyre::inplace_stop_source source;
    ending end;
    {
      model::thread stopper([&] { source.request_stop(); });
      model::thread sender([&] { news.send(std::make_shared<int>(7)); });
      hear(source.get_token(), mine, end);
    }
    model::assert_that(end.index == 0 || end.index == cancelled, "it has ended");
    model::assert_that(mine.pending() == (end.index == 0 ? 0U : 1U), "nothing is passed over");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(BroadcastModel, CloseAndSendAtOnce) {
  const auto checked = model::check({.preemptions = 2}, [] {
    gyre::broadcast<std::shared_ptr<int>> news(1);
    announcement mine = news.subscribe();
    ending end;
    bool sent = false;
    {
      model::thread closer([&] { news.close(); });
      model::thread sender(
          [&] { sent = news.try_send(std::make_shared<int>(7)) == channel_status::ok; });
      hear({}, mine, end);
    }
    model::assert_that(end.number == (sent ? 7 : -1), "the value, or the end");
  });
  EXPECT_TRUE(checked) << checked;
}

started receive_reply(gyre::inplace_stop_token, gyre::oneshot_receiver<value> from, ending& end) {
  auto result = co_await expecting{from.receive()};
  if (result && *result) end.number = ***result;
  end.index = result ? 0 : cancelled;
}

// The end that leaves last frees the state, which neither touches afterwards.
TEST(OneshotModel, EndsMayLeaveAtOnce) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    auto [reply, answer] = gyre::make_oneshot<value>();
    ending end;
    {
      model::thread sender([&to = reply] { to.send(make(7)); });
      receive_reply({}, std::move(answer), end);
    }
    model::assert_that(end.index == 0 && end.number == 7, "received");
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

TEST(OneshotModel, ReceiverThatDoesNotWaitLeavesAtOnceWithTheSender) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    auto [reply, answer] = gyre::make_oneshot<value>();
    model::thread sender([&to = reply] { to.send(make(7)); });
    const gyre::oneshot_receiver<value> leaves = std::move(answer);
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

TEST(OneshotModel, StopAndSendAtOnce) {
  const auto checked = model::check({.preemptions = 2, .spurious_failures = 0}, [] {
    auto [reply, answer] = gyre::make_oneshot<value>();
    gyre::inplace_stop_source source;
    ending end;
    {
      model::thread stopper([&] { source.request_stop(); });
      model::thread sender([&to = reply] { to.send(make(7)); });
      receive_reply(source.get_token(), std::move(answer), end);
    }
    model::assert_that(end.index == cancelled || end.number == 7, "stopped or received");
  });
  EXPECT_TRUE(checked) << checked;
}

}  // namespace

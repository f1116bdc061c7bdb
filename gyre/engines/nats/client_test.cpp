// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/client.hpp>

#include <gyre/engines/nats/client_test_support.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/error.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/stop_when.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>
#include <tests/support/failed_call.hpp>
#include <tests/support/nats_server.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace nats_client_test {
namespace {

using namespace std::chrono_literals;
using gyre::as_expected;
using gyre::task;
using gyre::nats::client;
using gyre::nats::client_options;
using gyre::nats::errc;
using gyre::nats::full_queue_policy;
using gyre::nats::headers;
using gyre::nats::message;
using gyre::nats::notice;
using gyre::nats::subscription;
using gyre::test::nats_server;
using gyre::test::calls::error_of;
using gyre::test::calls::message_of;
using nats_test::echo;
using nats_test::notices;
using nats_test::text_of;
using testing::ElementsAre;
using testing::HasSubstr;

// A loop, and a server of its own.
struct NatsClient : testing::Test {
  gyre::loop loop;
  nats_server server{loop};

  void run(task<> test) { gyre::sync_wait(loop, gyre::with_timeout(std::move(test), 250s)); }
  client connect(const client_options& options = {}) {
    return client(loop, server.address(), nats_test::patient(options));
  }
};

TEST_F(NatsClient, PublishesToSubscriptions) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect();
    subscription orders = bus.subscribe("orders.*");
    subscription all = bus.subscribe(">");
    co_await bus.publish("orders.new", "first");
    co_await bus.publish("orders.new.x", "second", {.reply = "answers"});
    const auto order = co_await orders.next();
    EXPECT_EQ(order->subject(), "orders.new");
    EXPECT_EQ(order->text(), "first");
    EXPECT_EQ(order->reply(), "");
    EXPECT_FALSE(order->follows_gap());
    EXPECT_EQ(co_await text_of(all.next()), "first");
    const auto second = co_await all.next();
    EXPECT_EQ(second->text(), "second");
    EXPECT_EQ(second->reply(), "answers");
    EXPECT_FALSE(orders.try_next());
    EXPECT_EQ(bus.metrics().connected, 1U);
    EXPECT_EQ(bus.metrics().published, 2U);
    EXPECT_EQ(bus.metrics().received, 3U);
    EXPECT_EQ(bus.server().version.substr(0, 2), "2.");
  }(*this));
}

TEST_F(NatsClient, CarriesHeadersAndAnyBytes) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect();
    subscription all = bus.subscribe("a");
    const headers extra{{"Trace", "7f2a"}, {"trace", "x: y"}};
    const std::string bytes("\0\r\nPING\r\n\xff", 11);
    co_await bus.publish("a", bytes, {.headers = extra});
    co_await bus.publish("a", {});
    const auto received = co_await all.next();
    EXPECT_EQ(received->text(), bytes);
    EXPECT_EQ(received->headers().find("Trace"), "7f2a");
    EXPECT_EQ(received->headers().find("trace"), "x: y");
    EXPECT_EQ(received->status(), 0);
    co_await bus.publish("a", "again", {.headers = received->headers()});
    EXPECT_EQ(co_await text_of(all.next()), "");
    const auto again = co_await all.next();
    EXPECT_EQ(again->headers().find("Trace"), "7f2a");
  }(*this));
}

TEST_F(NatsClient, CarriesLargeMessages) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect();
    subscription all = bus.subscribe("a");
    co_await bus.connect();
    const std::string largest(bus.server().max_payload, 'x');
    co_await bus.publish("a", largest);
    co_await bus.publish("a", "small");
    EXPECT_EQ(co_await text_of(all.next()), largest);
    EXPECT_EQ(co_await text_of(all.next()), "small");
    EXPECT_EQ(co_await error_of(bus.publish("a", largest + "x")), errc::payload_too_large);
    client careful = test.connect({.max_message = 1000});
    subscription limited = careful.subscribe("b");
    notices events(careful);
    co_await careful.flush();
    co_await bus.publish("b", largest);
    EXPECT_EQ(co_await events.wait_for(notice::disconnected), "127.0.0.1:" + test.server.port());
    co_await careful.flush();
    co_await bus.publish("b", "small");
    EXPECT_EQ(co_await text_of(limited.next()), "small");
  }(*this));
}

TEST_F(NatsClient, RefusesBadSubjects) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect();
    EXPECT_EQ(co_await error_of(bus.publish("a.*", "x")), errc::bad_subject);
    EXPECT_EQ(co_await error_of(bus.publish("a b", "x")), errc::bad_subject);
    EXPECT_EQ(co_await error_of(bus.publish("a", "x", {.reply = "\r\n"})), errc::bad_subject);
    EXPECT_EQ(co_await error_of(bus.request("", "x")), errc::bad_subject);
    EXPECT_THROW(static_cast<void>(bus.subscribe("a..b")), std::system_error);
    EXPECT_THROW(static_cast<void>(bus.subscribe("a", {.queue_group = "x y"})), std::system_error);
    EXPECT_THROW(static_cast<void>(bus.subscribe("a", {.max_messages = 0})), std::invalid_argument);
    EXPECT_THAT(co_await message_of(bus.publish("a b", "x")), HasSubstr("'a b'"));
    EXPECT_EQ(bus.metrics().connected, 0U);
  }(*this));
}

TEST_F(NatsClient, RequestsAndReplies) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect();
    client service = test.connect();
    subscription requests = service.subscribe("echo");
    co_await service.flush();
    auto ask = [](client& requester, client& responder) -> task<> {
      const message reply = co_await requester.request("echo", "hello");
      EXPECT_EQ(reply.text(), "hello!");
      EXPECT_EQ(requester.metrics().in_flight, 0U);
      co_await responder.drain();
    };
    co_await gyre::when_all(echo(service, std::move(requests)), ask(bus, service));
  }(*this));
}

task<> ask_often(client& bus, int asker, int times) {
  for (int each = 0; each < times; ++each) {
    const std::string text = std::to_string(asker) + '.' + std::to_string(each);
    const message reply = co_await bus.request("echo", text);
    EXPECT_EQ(reply.text(), text + '!');
  }
}

TEST_F(NatsClient, GivesEachReplyToItsRequest) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect();
    client service = test.connect();
    std::vector<task<>> serving;
    for (int each = 0; each < 3; ++each) {
      serving.push_back(echo(service, service.subscribe("echo", {.queue_group = "q"})));
    }
    co_await service.flush();
    auto ask = [](client& requester, client& responder) -> task<> {
      std::vector<task<>> all;
      for (int each = 0; each < 200; ++each) all.push_back(ask_often(requester, each, 10));
      co_await gyre::when_all(std::move(all));
      EXPECT_EQ(requester.metrics().connected, 1U);
      EXPECT_EQ(requester.metrics().late_replies, 0U);
      co_await responder.drain();
    };
    co_await gyre::when_all(gyre::when_all(std::move(serving)), ask(bus, service));
  }(*this));
}

TEST_F(NatsClient, FailsAtOnceWithoutResponders) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect();
    EXPECT_EQ(co_await error_of(bus.request("nobody", "x", {.timeout = 1h})), errc::no_responders);
    EXPECT_THAT(co_await message_of(bus.request("nobody", "x")), HasSubstr("nobody"));
    EXPECT_EQ(co_await error_of(bus.request("nobody", "x")), std::errc::host_unreachable);
  }(*this));
}

TEST_F(NatsClient, LimitsTheTimeOfRequests) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect({.request_timeout = 1ms});
    co_await bus.connect();
    subscription requests = bus.subscribe("slow");
    EXPECT_EQ(co_await error_of(bus.request("slow", "first")), errc::request_timeout);
    EXPECT_EQ(co_await error_of(bus.request("slow", "x", {.timeout = 0s})), std::errc::timed_out);
    // The reply to the first is too late, and no other request gets it.
    const auto first = co_await requests.next();
    const auto second = co_await requests.next();
    co_await bus.publish(first->reply(), "late");
    co_await bus.flush();
    EXPECT_EQ(bus.metrics().late_replies, 1U);
    auto answer = [](client& responder, subscription& queue) -> task<> {
      const auto third = co_await queue.next();
      co_await responder.publish(third->reply(), "in time");
    };
    const auto [reply, answered] = co_await gyre::when_all(
        bus.request("slow", "third", {.timeout = 1h}), answer(bus, requests));
    EXPECT_EQ(reply.text(), "in time");
    EXPECT_EQ(bus.metrics().in_flight, 0U);
  }(*this));
}

TEST_F(NatsClient, LimitsRequestsInFlight) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect({.max_in_flight = 1});
    subscription requests = bus.subscribe("slow");
    co_await bus.flush();
    auto answer = [](client& responder, subscription& queue) -> task<> {
      const auto request = co_await queue.next();
      co_await responder.publish(request->reply(), "done");
    };
    const auto [first, second, answered] = co_await gyre::when_all(
        bus.request("slow", "x"), error_of(bus.request("slow", "x")), answer(bus, requests));
    EXPECT_EQ(first.text(), "done");
    EXPECT_EQ(second, gyre::io::errc::waiting_limit);
  }(*this));
}

TEST_F(NatsClient, SharesMessagesAmongAQueueGroup) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect();
    subscription one = bus.subscribe("work", {.queue_group = "workers"});
    subscription two = bus.subscribe("work", {.queue_group = "workers"});
    subscription all = bus.subscribe("work");
    for (int each = 0; each < 100; ++each) co_await bus.publish("work", "x");
    co_await bus.flush();
    EXPECT_EQ(one.received() + two.received(), 100U);
    EXPECT_EQ(all.received(), 100U);
  }(*this));
}

TEST_F(NatsClient, EndsASubscriptionAfterANumberOfMessages) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect();
    subscription two = bus.subscribe("a", {.unsubscribe_after = 2});
    for (const char* text : {"1", "2", "3"}) co_await bus.publish("a", text);
    EXPECT_EQ(co_await text_of(two.next()), "1");
    EXPECT_EQ(co_await text_of(two.next()), "2");
    EXPECT_EQ(co_await text_of(two.next()), "end");
    co_await bus.flush();
    EXPECT_EQ(bus.metrics().received, 2U);
    EXPECT_EQ(bus.metrics().subscriptions, 0U);
    EXPECT_TRUE(two.has_ended());
  }(*this));
}

TEST_F(NatsClient, UnsubscribesInTheDestructor) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect();
    {
      subscription gone = bus.subscribe("a");
      subscription moved = std::move(gone);
      gone = bus.subscribe("a");
      co_await bus.flush();
      EXPECT_EQ(bus.metrics().subscriptions, 2U);
    }
    EXPECT_EQ(co_await error_of(bus.request("a", "x")), errc::no_responders);
    EXPECT_EQ(bus.metrics().subscriptions, 0U);
  }(*this));
}

// The texts of the messages that a subscription has now.
std::vector<std::string> texts_in(subscription& source) {
  std::vector<std::string> texts;
  while (auto next = source.try_next()) {
    texts.push_back(std::string(next->text()) + (next->follows_gap() ? " after a gap" : ""));
  }
  return texts;
}

task<> publish_numbers(client& bus, int last) {
  for (int each = 1; each <= last; ++each) co_await bus.publish("a", std::to_string(each));
  co_await bus.flush();
}

TEST_F(NatsClient, DropsTheOldestMessagesOfASlowConsumer) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect();
    notices events(bus);
    subscription slow = bus.subscribe("a", {.max_messages = 2});
    co_await publish_numbers(bus, 5);
    EXPECT_THAT(texts_in(slow), ElementsAre("4 after a gap", "5"));
    EXPECT_EQ(slow.dropped(), 3U);
    EXPECT_EQ(slow.received(), 5U);
    EXPECT_EQ(bus.metrics().dropped, 3U);
    EXPECT_EQ(co_await events.wait_for(notice::slow_consumer), "a");
    co_await publish_numbers(bus, 1);
    EXPECT_THAT(texts_in(slow), ElementsAre("1"));
  }(*this));
}

TEST_F(NatsClient, DropsTheNewestMessagesOfASlowConsumer) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect();
    subscription slow =
        bus.subscribe("a", {.max_messages = 2, .when_full = full_queue_policy::drop_newest});
    co_await publish_numbers(bus, 5);
    EXPECT_THAT(texts_in(slow), ElementsAre("1", "2"));
    EXPECT_EQ(slow.dropped(), 3U);
    co_await publish_numbers(bus, 2);
    EXPECT_THAT(texts_in(slow), ElementsAre("1 after a gap", "2"));
  }(*this));
}

TEST_F(NatsClient, EndsASlowConsumer) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect();
    subscription slow =
        bus.subscribe("a", {.max_messages = 2, .when_full = full_queue_policy::end});
    co_await publish_numbers(bus, 5);
    EXPECT_TRUE(slow.has_ended());
    EXPECT_EQ(co_await text_of(slow.next()), "1");
    EXPECT_EQ(co_await text_of(slow.next()), "2");
    EXPECT_EQ(co_await error_of(slow.next()), errc::slow_consumer);
    EXPECT_THROW(static_cast<void>(slow.try_next()), std::system_error);
    EXPECT_EQ(co_await error_of(bus.request("a", "x")), errc::no_responders);
  }(*this));
}

TEST_F(NatsClient, LimitsTheBytesOfAQueue) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect();
    subscription slow = bus.subscribe("a", {.max_bytes = 1000});
    for (int each = 0; each < 100; ++each) co_await bus.publish("a", std::string(300, 'x'));
    co_await bus.flush();
    EXPECT_LE(slow.waiting_bytes(), 1000U);
    EXPECT_GE(slow.waiting(), 2U);
    EXPECT_EQ(slow.waiting() + slow.dropped(), 100U);
    // Empty messages cost memory, too.
    for (int each = 0; each < 100; ++each) co_await bus.publish("a", "");
    co_await bus.flush();
    EXPECT_LE(slow.waiting(), 25U);
    co_await bus.publish("a", std::string(5000, 'x'));
    co_await bus.flush();
    EXPECT_EQ(slow.waiting(), 1U);
    EXPECT_EQ(texts_in(slow).size(), 1U);
    EXPECT_EQ(slow.waiting_bytes(), 0U);
  }(*this));
}

TEST_F(NatsClient, DrainsASubscription) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect();
    subscription drained = bus.subscribe("a");
    co_await publish_numbers(bus, 3);
    co_await drained.drain();
    co_await publish_numbers(bus, 3);
    EXPECT_THAT(texts_in(drained), ElementsAre("1", "2", "3"));
    EXPECT_EQ(co_await text_of(drained.next()), "end");
    co_await drained.drain();
    EXPECT_EQ(bus.metrics().subscriptions, 0U);
    subscription none;
    co_await none.drain();
    EXPECT_EQ(co_await text_of(none.next()), "end");
  }(*this));
}

TEST_F(NatsClient, DrainsTheClient) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect();
    client service = test.connect();
    subscription requests = service.subscribe("echo");
    subscription answers = bus.subscribe("answers");
    co_await service.flush();
    co_await bus.flush();
    for (int each = 0; each < 100; ++each) {
      co_await bus.publish("echo", std::to_string(each), {.reply = "answers"});
    }
    co_await bus.flush();
    co_await service.flush();  // so that the service has all of them
    co_await gyre::when_all(echo(service, std::move(requests)), service.drain());
    EXPECT_EQ(co_await error_of(service.publish("a", "x")), gyre::io::errc::not_open);
    co_await bus.flush();
    EXPECT_EQ(answers.received(), 100U);
    EXPECT_EQ(co_await error_of(bus.request("echo", "x")), errc::no_responders);
    co_await service.drain();
  }(*this));
}

// Serves until the subscription ends; the server is asked several times before each answer.
task<> serve_slowly(client& bus, subscription source) {
  for (;;) {
    const auto received = co_await as_expected(source.next());
    if (!received || !*received) co_return;
    for (int each = 0; each < 3; ++each) EXPECT_FALSE(co_await error_of(bus.flush()));
    EXPECT_FALSE(co_await error_of(bus.publish("answers", (*received)->text())));
  }
}

TEST_F(NatsClient, DrainsSubscriptionsThatHaveEndedBefore) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect();
    client other = test.connect();
    subscription answers = other.subscribe("answers");
    co_await other.flush();
    subscription limited = bus.subscribe("a", {.unsubscribe_after = 1});
    subscription slow =
        bus.subscribe("a", {.max_messages = 1, .when_full = full_queue_policy::end});
    subscription drained = bus.subscribe("a");
    co_await publish_numbers(bus, 2);
    co_await drained.drain();
    EXPECT_TRUE(limited.has_ended() && slow.has_ended() && drained.has_ended());
    co_await gyre::when_all(serve_slowly(bus, std::move(limited)),
                            serve_slowly(bus, std::move(slow)),
                            serve_slowly(bus, std::move(drained)), bus.drain());
    co_await other.flush();
    EXPECT_EQ(answers.received(), 4U);
  }(*this));
}

TEST_F(NatsClient, JoinsARunningDrain) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect();
    client other = test.connect();
    subscription answers = other.subscribe("answers");
    co_await other.flush();
    subscription requests = bus.subscribe("a");
    co_await publish_numbers(bus, 1);
    gyre::manual_reset_event is_draining;
    auto serve = [](client& responder, subscription source,
                    gyre::manual_reset_event& event) -> task<> {
      static_cast<void>(co_await source.next());
      // Once the subscription has ended, the first drain() waits for this coroutine.
      while (!source.has_ended()) co_await responder.flush();
      event.set();
      for (int each = 0; each < 3; ++each) EXPECT_FALSE(co_await error_of(responder.flush()));
      EXPECT_FALSE(co_await error_of(responder.publish("answers", "x")));
      EXPECT_EQ(co_await text_of(source.next()), "end");
    };
    auto drain_later = [](client& target, gyre::manual_reset_event& event) -> task<> {
      co_await event.wait();
      co_await target.drain();
      EXPECT_EQ(co_await error_of(target.flush()), gyre::io::errc::not_open);
    };
    co_await gyre::when_all(serve(bus, std::move(requests), is_draining), bus.drain(),
                            drain_later(bus, is_draining));
    co_await other.flush();
    EXPECT_EQ(answers.received(), 1U);
  }(*this));
}

TEST_F(NatsClient, EndsADrainWhenItIsClosed) {
  run([](NatsClient& test) -> task<> {
    auto bus = std::make_optional<client>(test.connect());
    subscription forgotten = bus->subscribe("a");
    co_await publish_numbers(*bus, 1);
    auto destroy = [](std::optional<client>& owner, subscription& source) -> task<> {
      while (!source.has_ended()) co_await owner->flush();
      owner.reset();
    };
    const auto [first, second, done] = co_await gyre::when_all(
        error_of(bus->drain()), error_of(bus->drain()), destroy(bus, forgotten));
    EXPECT_EQ(first, gyre::io::errc::closed);
    EXPECT_EQ(second, gyre::io::errc::closed);
    EXPECT_THAT(texts_in(forgotten), ElementsAre("1"));
  }(*this));
}

TEST_F(NatsClient, EndsASubscriptionWhoseDrainIsStopped) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect();
    subscription drained = bus.subscribe("a");
    co_await publish_numbers(bus, 2);
    test.server.pause();  // so that it confirms nothing
    EXPECT_EQ(co_await error_of(gyre::with_timeout(drained.drain(), 0s)), std::errc::timed_out);
    EXPECT_TRUE(drained.has_ended());
    EXPECT_THAT(texts_in(drained), ElementsAre("1", "2"));
    EXPECT_EQ(bus.metrics().subscriptions, 0U);
    test.server.resume();
    co_await bus.drain();
  }(*this));
}

TEST_F(NatsClient, ClosesWhenItsDrainIsStopped) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect();
    subscription last = bus.subscribe("a");
    co_await bus.flush();
    test.server.pause();  // so that it confirms nothing
    const auto [first, second] = co_await gyre::when_all(
        error_of(gyre::with_timeout(bus.drain(), 0s)), error_of(bus.drain()));
    EXPECT_EQ(first, std::errc::timed_out);
    EXPECT_EQ(second, gyre::io::errc::closed);
    EXPECT_EQ(co_await text_of(last.next()), "end");
    EXPECT_EQ(co_await error_of(bus.flush()), gyre::io::errc::not_open);
    test.server.resume();
  }(*this));
}

TEST_F(NatsClient, LimitsTheTimeOfDrain) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect({.drain_timeout = 1ms});
    subscription forgotten = bus.subscribe("a");
    co_await publish_numbers(bus, 1);
    EXPECT_EQ(co_await error_of(bus.drain()), std::errc::timed_out);
    EXPECT_EQ(co_await error_of(bus.publish("a", "x")), gyre::io::errc::not_open);
    client idle = test.connect();
    co_await idle.drain();
    EXPECT_EQ(idle.metrics().connected, 0U);
  }(*this));
}

TEST_F(NatsClient, RefusesNewSubscriptionsWhileItDrains) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect();
    subscription last = bus.subscribe("a");
    co_await bus.flush();
    auto try_subscribe = [](client& target, subscription& source) -> task<> {
      try {
        static_cast<void>(target.subscribe("b"));
        ADD_FAILURE() << "no exception";
      } catch (const std::system_error& error) {
        EXPECT_EQ(error.code(), errc::draining);
      }
      EXPECT_EQ(co_await text_of(source.next()), "end");
    };
    co_await gyre::when_all(bus.drain(), try_subscribe(bus, last));
  }(*this));
}

TEST_F(NatsClient, PublishesWithoutWaiting) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect();
    EXPECT_FALSE(bus.try_publish("a", "too early"));
    co_await bus.connect();
    subscription all = bus.subscribe("a");
    EXPECT_TRUE(bus.try_publish("a", "x"));
    EXPECT_EQ(co_await text_of(all.next()), "x");
    EXPECT_THROW(static_cast<void>(bus.try_publish("", "x")), std::system_error);
    bus.close();
    EXPECT_THROW(static_cast<void>(bus.try_publish("a", "x")), std::system_error);
  }(*this));
}

TEST_F(NatsClient, SendsNoMessagesBackWithoutEcho) {
  run([](NatsClient& test) -> task<> {
    client quiet = test.connect({.echo = false});
    client other = test.connect();
    subscription all = quiet.subscribe("a");
    co_await quiet.flush();
    co_await quiet.publish("a", "own");
    co_await quiet.flush();
    co_await other.publish("a", "other");
    EXPECT_EQ(co_await text_of(all.next()), "other");
  }(*this));
}

TEST_F(NatsClient, MakesInboxesForManyReplies) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect({.inbox_prefix = "replies.mine"});
    const std::string inbox = bus.new_inbox();
    EXPECT_TRUE(inbox.starts_with("replies.mine."));
    EXPECT_NE(inbox, bus.new_inbox());
    subscription replies = bus.subscribe(inbox, {.unsubscribe_after = 2});
    subscription requests = bus.subscribe("many");
    co_await bus.publish("many", "x", {.reply = inbox});
    const auto request = co_await requests.next();
    co_await bus.publish(request->reply(), "1");
    co_await bus.publish(request->reply(), "2");
    EXPECT_EQ(co_await text_of(replies.next()), "1");
    EXPECT_EQ(co_await text_of(replies.next()), "2");
    EXPECT_EQ(co_await text_of(replies.next()), "end");
    // A publication without subscriptions is answered by a status.
    subscription none = bus.subscribe(bus.new_inbox());
    co_await bus.publish("nobody", "x", {.reply = none.subject()});
    const auto status = co_await none.next();
    EXPECT_EQ(status->status(), 503);
    EXPECT_EQ(bus.metrics().late_replies, 0U);
  }(*this));
}

// --- Ends ---

TEST_F(NatsClient, EndsCallsWhenItIsClosed) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect();
    subscription all = bus.subscribe("a");
    co_await bus.flush();
    auto close = [](client& target) -> task<> {
      target.close();
      co_return;
    };
    const auto [request, flush, next, done] = co_await gyre::when_all(
        error_of(bus.request("a", "x")), error_of(bus.flush()), text_of(all.next()), close(bus));
    EXPECT_EQ(request, gyre::io::errc::closed);
    EXPECT_EQ(flush, gyre::io::errc::closed);
    EXPECT_EQ(next, "end");
    EXPECT_EQ(co_await error_of(bus.flush()), gyre::io::errc::not_open);
    EXPECT_EQ(co_await error_of(bus.request("a", "x")), gyre::io::errc::not_open);
    EXPECT_THROW(static_cast<void>(bus.subscribe("a")), std::system_error);
    bus.close();
  }(*this));
}

TEST_F(NatsClient, MayBeMovedAndDestroyedBeforeItsCalls) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect();
    client moved = std::move(bus);
    EXPECT_EQ(co_await error_of(bus.publish("a", "x")), gyre::io::errc::not_open);
    EXPECT_EQ(co_await error_of(bus.drain()), gyre::io::errc::not_open);
    EXPECT_FALSE(bus.is_connected());
    subscription all = moved.subscribe("a");
    co_await moved.flush();
    std::optional<client> owned(std::move(moved));
    auto destroy = [](std::optional<client>& owner) -> task<> {
      owner.reset();
      co_return;
    };
    const auto [request, next, done] = co_await gyre::when_all(error_of(owned->request("a", "x")),
                                                               text_of(all.next()), destroy(owned));
    EXPECT_EQ(request, gyre::io::errc::closed);
    EXPECT_EQ(next, "end");
  }(*this));
}

TEST_F(NatsClient, StopsCalls) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect();
    subscription all = bus.subscribe("a");
    co_await bus.flush();
    gyre::inplace_stop_source source;
    auto stop = [](gyre::inplace_stop_source& stop_source) -> task<> {
      stop_source.request_stop();
      co_return;
    };
    auto request = gyre::as_task(gyre::stop_when(bus.request("a", "x"), source.get_token()));
    auto next = gyre::as_task(gyre::stop_when(text_of(all.next()), source.get_token()));
    auto second = gyre::as_task(gyre::stop_when(text_of(all.next()), source.get_token()));
    const auto [first_error, done] =
        co_await gyre::when_all(error_of(std::move(request)), stop(source));
    EXPECT_EQ(first_error, std::errc::operation_canceled);
    EXPECT_EQ(bus.metrics().in_flight, 0U);
    // The request's message has come all the same.
    EXPECT_EQ(co_await text_of(all.next()), "x");
    EXPECT_EQ(co_await error_of(std::move(next)), std::errc::operation_canceled);
    co_await bus.publish("a", "y");
    EXPECT_EQ(co_await text_of(all.next()), "y");
    EXPECT_EQ(bus.metrics().connected, 1U);
  }(*this));
}

TEST_F(NatsClient, MayBeDestroyedByANotice) {
  run([](NatsClient& test) -> task<> {
    auto bus = std::make_optional<client>(test.connect());
    bus->on_notice([&bus](notice, std::string_view) { bus.reset(); });
    subscription all = bus->subscribe("a");
    EXPECT_EQ(co_await text_of(all.next()), "end");
    EXPECT_FALSE(bus);
  }(*this));
}

TEST_F(NatsClient, MayReplaceItsNoticeHandlerWithinIt) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect();
    auto captured = std::make_shared<int>(0);
    const std::weak_ptr<int> observed = captured;
    bool is_alive = false;
    int replaced_calls = 0;
    bus.on_notice([&, captured = std::move(captured)](notice, std::string_view) {
      // Copies, which outlive the captures in any case.
      bool& result = is_alive;
      const std::weak_ptr<int> watched = observed;
      bus.on_notice([&replaced_calls](notice, std::string_view) { ++replaced_calls; });
      result = !watched.expired();
    });
    co_await bus.connect();
    EXPECT_TRUE(is_alive);
    subscription slow = bus.subscribe("a", {.max_messages = 1});
    co_await publish_numbers(bus, 2);
    EXPECT_EQ(replaced_calls, 1);
    EXPECT_TRUE(observed.expired());
    bus.on_notice(nullptr);
    co_await publish_numbers(bus, 2);
  }(*this));
}

TEST_F(NatsClient, RefusesOptionsThatMakeNoSense) {
  for (const client_options& options :
       {client_options{.password = "x"}, client_options{.inbox_prefix = "a.*"},
        client_options{.max_in_flight = 0}, client_options{.max_waiting = 0},
        client_options{.max_message = 0}, client_options{.high_water = 0},
        client_options{.max_connect_attempts = 0}, client_options{.connect_timeout = 0s},
        client_options{.ping_interval = 0s}, client_options{.max_pings = 0}}) {
    EXPECT_ANY_THROW(static_cast<void>(connect(options)));
  }
  EXPECT_THROW(client(loop, std::vector<std::string>()), std::invalid_argument);
  EXPECT_THROW(client(loop, "ftp://localhost"), std::system_error);
}

// --- Lost connections ---

// Attempts, more than pass until a server has started again.
constexpr std::size_t many = 1'000'000;

TEST_F(NatsClient, SubscribesAgainAfterARestart) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect({.max_connect_attempts = many, .initial_delay = 1ms});
    notices events(bus);
    subscription all = bus.subscribe("a");
    subscription two = bus.subscribe("b", {.unsubscribe_after = 2});
    co_await bus.flush();
    co_await bus.publish("b", "1");
    EXPECT_EQ(co_await text_of(two.next()), "1");
    co_await test.server.kill();
    EXPECT_THAT(co_await events.wait_for(notice::disconnected), HasSubstr(test.server.port()));
    co_await bus.publish("a", "kept");
    EXPECT_TRUE(bus.try_publish("b", "2"));
    EXPECT_GT(bus.metrics().kept_bytes, 0U);
    co_await test.server.start_again();
    const auto kept = co_await all.next();
    EXPECT_EQ(kept->text(), "kept");
    EXPECT_TRUE(kept->follows_gap());
    EXPECT_EQ(co_await text_of(two.next()), "2");
    EXPECT_EQ(co_await text_of(two.next()), "end");
    EXPECT_EQ(bus.metrics().connected, 2U);
    EXPECT_EQ(bus.metrics().kept_bytes, 0U);
    co_await bus.publish("a", "again");
    EXPECT_EQ(co_await text_of(all.next()), "again");
  }(*this));
}

TEST_F(NatsClient, FailsCallsInFlightWhenTheServerIsKilled) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect({.max_connect_attempts = many, .initial_delay = 1ms});
    subscription all = bus.subscribe("a");
    co_await bus.flush();
    test.server.pause();
    const auto [request, flush, killed] = co_await gyre::when_all(
        error_of(bus.request("a", "x")), error_of(bus.flush()), test.server.kill());
    EXPECT_EQ(request, errc::connection_lost);
    EXPECT_EQ(flush, errc::connection_lost);
    co_await test.server.start_again();
    co_await bus.flush();
    EXPECT_EQ(bus.metrics().in_flight, 0U);
  }(*this));
}

TEST_F(NatsClient, SendsARequestThatWasKeptByTheNextConnection) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect({.max_connect_attempts = many, .initial_delay = 1ms});
    client service = test.connect({.max_connect_attempts = many, .initial_delay = 1ms});
    notices events(bus);
    notices service_events(service);
    subscription requests = service.subscribe("echo");
    co_await service.flush();
    co_await bus.flush();
    co_await test.server.kill();
    static_cast<void>(co_await events.wait_for(notice::disconnected));
    static_cast<void>(co_await service_events.wait_for(notice::disconnected));
    // The service may be back later than the request, so that there is no responder at first.
    auto ask = [](client& requester, client& responder) -> task<> {
      for (;;) {
        const auto reply = co_await as_expected(requester.request("echo", "kept", {.timeout = 1h}));
        if (reply) {
          EXPECT_EQ(reply->text(), "kept!");
          break;
        }
        EXPECT_EQ(reply.error(), errc::no_responders);
        co_await responder.connect();
        co_await responder.flush();
      }
      co_await responder.drain();
    };
    co_await gyre::when_all(echo(service, std::move(requests)), ask(bus, service),
                            test.server.start_again());
  }(*this));
}

TEST_F(NatsClient, LimitsWhatItKeeps) {
  run([](NatsClient& test) -> task<> {
    client bus =
        test.connect({.keep_limit = 1000, .max_connect_attempts = many, .initial_delay = 1ms});
    notices events(bus);
    subscription all = bus.subscribe("a");
    co_await bus.flush();
    co_await test.server.kill();
    static_cast<void>(co_await events.wait_for(notice::disconnected));
    int kept = 0;
    while (bus.try_publish("a", "x")) ++kept;
    EXPECT_GE(kept, 5);
    EXPECT_LE(bus.metrics().kept_bytes, 1000U);
    co_await gyre::when_all(bus.publish("a", "last"), test.server.start_again());
    for (; kept > 0; --kept) EXPECT_EQ(co_await text_of(all.next()), "x");
    EXPECT_EQ(co_await text_of(all.next()), "last");
  }(*this));
}

TEST_F(NatsClient, FailsWhenNobodyListens) {
  run([](NatsClient& test) -> task<> {
    co_await test.server.kill();
    client bus = test.connect({.max_connect_attempts = 2, .initial_delay = 1ms});
    const std::string text = co_await message_of(bus.publish("a", "x"));
    EXPECT_THAT(text, HasSubstr("gyre::nats::client 127.0.0.1:" + test.server.port()));
    EXPECT_THAT(text, HasSubstr("Connection refused"));
    EXPECT_EQ(co_await error_of(bus.request("a", "x", {.timeout = 1h})),
              std::errc::connection_refused);
    EXPECT_EQ(co_await error_of(bus.flush()), std::errc::connection_refused);
    EXPECT_EQ(bus.metrics().waiting, 0U);
    client patient = test.connect({.max_connect_attempts = many});
    EXPECT_EQ(co_await error_of(patient.request("a", "x", {.timeout = 1ms})),
              errc::request_timeout);
    co_await test.server.start_again();
    co_await bus.flush();
    co_await patient.flush();
  }(*this));
}

TEST_F(NatsClient, LimitsWaitingCalls) {
  run([](NatsClient& test) -> task<> {
    co_await test.server.kill();
    client bus = test.connect({.max_waiting = 2, .max_connect_attempts = 1});
    const auto [first, second, third] = co_await gyre::when_all(
        error_of(bus.publish("a", "x")), error_of(bus.flush()), error_of(bus.request("a", "x")));
    EXPECT_EQ(first, std::errc::connection_refused);
    EXPECT_EQ(second, std::errc::connection_refused);
    EXPECT_EQ(third, gyre::io::errc::waiting_limit);
  }(*this));
}

TEST_F(NatsClient, GivesUpAServerThatDoesNotAnswer) {
  run([](NatsClient& test) -> task<> {
    client bus =
        test.connect({.max_connect_attempts = many, .initial_delay = 1ms, .ping_interval = 200ms});
    co_await bus.connect();
    test.server.pause();
    EXPECT_EQ(co_await error_of(bus.flush()), errc::no_reply);
    test.server.resume();
    // The server may again take too long for so short an interval.
    while (co_await error_of(bus.flush())) continue;
    EXPECT_GE(bus.metrics().connected, 2U);
  }(*this));
}

TEST_F(NatsClient, WaitsForAServerThatDoesNotRead) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect({.high_water = 100'000});
    client other = test.connect();
    subscription all = other.subscribe("a");
    co_await other.flush();
    co_await bus.connect();
    test.server.pause();
    const std::string text(50'000, 'x');
    std::size_t sent = 0;
    while (bus.try_publish("a", text)) {
      ++sent;
      co_await gyre::sleep_for(0s);  // so that the turn's output is sent
    }
    auto publish_rest = [](client& publisher, std::string_view payload) -> task<> {
      std::vector<task<>> rest;
      for (int each = 0; each < 20; ++each) rest.push_back(publisher.publish("a", payload));
      co_await gyre::when_all(std::move(rest));
      co_await publisher.flush();
    };
    auto resume = [](NatsClient& fixture, client& publisher) -> task<> {
      EXPECT_EQ(publisher.metrics().waiting, 20U);
      fixture.server.resume();
      co_return;
    };
    co_await gyre::when_all(publish_rest(bus, text), resume(test, bus));
    while (all.received() < sent + 20) EXPECT_EQ(co_await text_of(all.next()), text);
    EXPECT_EQ(bus.metrics().connected, 1U);
  }(*this));
}

TEST_F(NatsClient, ReportsALameDuck) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect();
    notices events(bus);
    co_await bus.flush();
    test.server.signal(SIGUSR2);
    EXPECT_THAT(co_await events.wait_for(notice::lame_duck), HasSubstr(test.server.port()));
    EXPECT_TRUE(bus.server().is_lame_duck);
  }(*this));
}

// --- Calls stopped at any moment ---

// The number of calls that a test stops: few, unless somebody asks for more.
int stopped_calls() {
  const char* const wanted = std::getenv("GYRE_NATS_STOPPED_CALLS");
  return wanted != nullptr ? std::atoi(wanted) : 1000;
}

// A request that ends by its reply, or by a stop after `delay`.
task<> ask_and_stop(client& bus, std::string text, std::chrono::microseconds delay,
                    std::size_t& replies) {
  const auto reply =
      co_await as_expected(gyre::with_timeout(bus.request("echo", text, {.timeout = 1h}), delay));
  if (!reply) co_return;
  ++replies;
  EXPECT_EQ(reply->text(), text + '!');
}

// Another call, which is stopped after `delay` unless it ends before.
task<> call_and_stop(client& bus, int number, std::chrono::microseconds delay) {
  switch (number % 4) {
    case 0: static_cast<void>(co_await as_expected(gyre::with_timeout(bus.flush(), delay))); break;
    case 1: {
      auto published = bus.publish("echo", "x", {.reply = "nobody"});
      static_cast<void>(co_await as_expected(gyre::with_timeout(std::move(published), delay)));
      break;
    }
    case 2: {
      subscription all = bus.subscribe("nobody");
      static_cast<void>(co_await as_expected(gyre::with_timeout(all.next(), delay)));
      break;
    }
    default: {
      subscription drained = bus.subscribe("nobody");
      static_cast<void>(co_await as_expected(gyre::with_timeout(drained.drain(), delay)));
    }
  }
}

TEST_F(NatsClient, GivesNoReplyToTheWrongRequestWhenCallsAreStopped) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect();
    client service = test.connect();
    subscription requests = service.subscribe("echo");
    co_await service.flush();
    co_await bus.connect();
    auto ask = [](client& requester, client& responder) -> task<> {
      const int count = stopped_calls();
      std::size_t replies = 0;
      for (int begun = 0; begun < count;) {
        std::vector<task<>> all;
        for (int each = 0; each < 100; ++each, ++begun) {
          const std::chrono::microseconds delay(begun * 7919 % 3000);
          all.push_back(ask_and_stop(requester, std::to_string(begun), delay, replies));
          all.push_back(call_and_stop(requester, begun, delay));
        }
        co_await gyre::when_all(std::move(all));
        EXPECT_EQ(requester.metrics().in_flight, 0U);
        EXPECT_EQ(requester.metrics().waiting, 0U);
        EXPECT_EQ(requester.metrics().subscriptions, 0U);
      }
      co_await requester.flush();
      EXPECT_EQ(requester.metrics().connected, 1U);
      co_await responder.drain();
    };
    co_await gyre::when_all(echo(service, std::move(requests)), ask(bus, service));
  }(*this));
}

TEST_F(NatsClient, LeavesNothingBehindWhenCallsAreStoppedAndTheServerIsKilled) {
  run([](NatsClient& test) -> task<> {
    client bus = test.connect({.max_connect_attempts = many, .initial_delay = 1ms});
    client service = test.connect({.max_connect_attempts = many, .initial_delay = 1ms});
    subscription requests = service.subscribe("echo");
    auto restart = [](nats_server& process) -> task<> {
      co_await process.kill();
      co_await process.start_again();
    };
    auto ask = [&restart](client& requester, client& responder, nats_server& process) -> task<> {
      const int count = stopped_calls();
      std::size_t replies = 0;
      for (int begun = 0; begun < count;) {
        std::vector<task<>> all;
        for (int each = 0; each < 200; ++each, ++begun) {
          const std::chrono::microseconds delay(begun * 7919 % 30'000);
          all.push_back(ask_and_stop(requester, std::to_string(begun), delay, replies));
          all.push_back(call_and_stop(requester, begun, delay));
        }
        all.push_back(restart(process));
        co_await gyre::when_all(std::move(all));
        EXPECT_EQ(requester.metrics().in_flight, 0U);
        EXPECT_EQ(requester.metrics().waiting, 0U);
        EXPECT_EQ(requester.metrics().subscriptions, 0U);
      }
      co_await responder.flush();
      const message reply = co_await requester.request("echo", "still here");
      EXPECT_EQ(reply.text(), "still here!");
      co_await responder.drain();
    };
    co_await gyre::when_all(echo(service, std::move(requests)), ask(bus, service, test.server));
  }(*this));
}

}  // namespace
}  // namespace nats_client_test

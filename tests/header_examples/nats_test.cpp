// SPDX-License-Identifier: Apache-2.0
// The examples in the comments of the headers of NATS.
#include <gyre/engines/nats/client.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/when_all.hpp>
#include <tests/support/nats_server.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <optional>
#include <string>
#include <utility>

namespace nats_examples_test {
namespace {

using namespace std::chrono_literals;

struct NatsExamples : testing::Test {
  gyre::loop loop;
  gyre::test::nats_server its_server{loop};
  std::string server = its_server.address();
};

// A service of "time".
gyre::task<> tell_time(gyre::nats::client& bus, gyre::nats::subscription requests) {
  auto request = co_await requests.next();
  co_await bus.publish(request->reply(), "noon");
  co_await bus.flush();
}

// gyre/engines/nats/client.hpp
gyre::task<> use_client(gyre::event_loop& loop, std::string server, std::string& handled) {
  gyre::nats::client bus(loop, server);  // such as "nats://localhost:4222"

  gyre::nats::client other(loop, server);
  const auto handle = [&](const gyre::nats::message& order) {
    handled = order.text();
    bus.close();
  };
  auto read_orders = [&]() -> gyre::task<> {
    // clang-format off
    co_await bus.publish("orders.new", "{\"item\": 7}");
    gyre::nats::subscription orders = bus.subscribe("orders.*");
    while (auto order = co_await orders.next()) handle(*order);
    // clang-format on
  };
  auto send_orders = [&]() -> gyre::task<> {
    while (handled.empty()) {
      co_await other.publish("orders.new", "8");
      co_await other.flush();
    }
  };
  auto ask = [&]() -> gyre::task<> {
    co_await other.flush();
    gyre::nats::message reply = co_await bus.request("time", {}, {.timeout = 1min});
    EXPECT_EQ(reply.text(), "noon");
  };
  auto answering = tell_time(other, other.subscribe("time"));
  auto asking = ask();
  co_await gyre::when_all(std::move(answering), std::move(asking));
  auto reading = read_orders();
  auto sending = send_orders();
  co_await gyre::when_all(std::move(reading), std::move(sending));
}

TEST_F(NatsExamples, ClientIsUsed) {
  std::string handled;
  gyre::sync_wait(loop, use_client(loop, server, handled));
  EXPECT_EQ(handled, "8");
}

// gyre/engines/nats/error.hpp
gyre::task<std::string> ask_nobody(gyre::nats::client& bus) {
  // clang-format off
  auto reply = co_await gyre::as_expected(bus.request("time", {}, {.timeout = 1min}));
  if (!reply && reply.error() == gyre::nats::errc::no_responders) co_return "nobody serves it";
  // clang-format on
  co_return "";
}

TEST_F(NatsExamples, ErrorIsCompared) {
  gyre::nats::client bus(loop, server);
  EXPECT_EQ(gyre::sync_wait(loop, ask_nobody(bus)), "nobody serves it");
}

// gyre/engines/nats/headers.hpp, message.hpp
gyre::task<> send_headers(gyre::nats::client& bus) {
  gyre::nats::subscription orders = bus.subscribe("orders.new");
  gyre::nats::subscription answers = bus.subscribe("answers");
  // clang-format off
  gyre::nats::headers extra{{"Trace", "7f2a"}, {"Content-Type", "text/plain"}};
  co_await bus.publish("orders.new", "hello", {.headers = extra});
  // clang-format on
  auto received = co_await orders.next();
  const gyre::nats::message& order = *received;
  if (auto trace = order.headers().find("Trace")) std::cout << *trace << '\n';
  EXPECT_EQ(order.headers().find("Trace"), "7f2a");
  co_await bus.publish("orders.new", "hello", {.reply = "answers"});
}

TEST_F(NatsExamples, HeadersAreSent) {
  gyre::nats::client bus(loop, server);
  gyre::sync_wait(loop, send_headers(bus));
}

gyre::task<> accept_orders(gyre::nats::client& bus, gyre::nats::subscription& orders) {
  // clang-format off
  auto order = co_await orders.next();
  if (!order->reply().empty()) co_await bus.publish(order->reply(), "accepted");
  // clang-format on
}

TEST_F(NatsExamples, MessageIsAnswered) {
  gyre::nats::client bus(loop, server);
  gyre::nats::subscription orders = bus.subscribe("orders");
  auto run = [&]() -> gyre::task<> {
    co_await bus.flush();
    auto reply = bus.request("orders", "one");
    auto accepting = accept_orders(bus, orders);
    const auto [replied, accepted] =
        co_await gyre::when_all(std::move(reply), std::move(accepting));
    EXPECT_EQ(replied.text(), "accepted");
  };
  gyre::sync_wait(loop, run());
}

// gyre/engines/nats/subscription.hpp
gyre::task<> print_orders(gyre::nats::client& bus) {
  // clang-format off
  gyre::nats::subscription orders = bus.subscribe("orders.*", {.queue_group = "workers"});
  while (auto order = co_await orders.next()) {
    std::cout << order->subject() << ": " << order->text() << '\n';
  }
  // clang-format on
}

gyre::task<> send_and_drain(gyre::nats::client& bus) {
  co_await bus.flush();
  co_await bus.publish("orders.new", "7");
  co_await bus.flush();
  co_await bus.drain();
}

TEST_F(NatsExamples, SubscriptionIsRead) {
  gyre::nats::client bus(loop, server);
  testing::internal::CaptureStdout();
  auto run = [&]() -> gyre::task<> {
    auto printing = print_orders(bus);
    auto sending = send_and_drain(bus);
    co_await gyre::when_all(std::move(printing), std::move(sending));
  };
  gyre::sync_wait(loop, run());
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "orders.new: 7\n");
}

}  // namespace
}  // namespace nats_examples_test

// SPDX-License-Identifier: Apache-2.0
// The programs of docs/guide/nats.md.
#include <gyre/engines/nats/client.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/task/when_all.hpp>
#include <tests/support/nats_server.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <string>
#include <system_error>
#include <utility>

namespace nats_guide_test {
namespace {

using namespace std::chrono_literals;

// clang-format off
gyre::task<> print_orders(gyre::nats::client& bus) {
  gyre::nats::subscription orders = bus.subscribe("orders.*");
  while (auto order = co_await orders.next()) {
    std::cout << order->subject() << ": " << order->text() << '\n';
  }
}

gyre::task<> place_orders(gyre::nats::client& bus) {
  co_await bus.publish("orders.new", "7 apples");
  co_await bus.publish("orders.changed", "8 apples");
  co_await bus.flush();
}
// clang-format on

// clang-format off
gyre::task<> work(gyre::nats::client& bus) {
  gyre::nats::subscription jobs = bus.subscribe("jobs", {.queue_group = "workers"});
  while (auto job = co_await jobs.next()) {
    auto kind = job->headers().find("Kind");
    std::cout << kind.value_or("any") << ' ' << job->text() << '\n';
  }
}

gyre::task<> submit(gyre::nats::client& bus) {
  gyre::nats::headers headers_of_job{{"Kind", "resize"}};
  co_await bus.publish("jobs", "cat.jpg", {.headers = headers_of_job});
}
// clang-format on

// clang-format off
gyre::task<> follow_prices(gyre::nats::client& bus) {
  gyre::nats::subscription prices = bus.subscribe("prices", {.max_messages = 2});
  co_await bus.flush();
  for (int price = 1; price <= 5; ++price) {
    co_await bus.publish("prices", std::to_string(price));
  }
  co_await bus.flush();
  for (int count = 0; count < 2; ++count) {
    auto price = co_await prices.next();
    std::cout << price->text() << (price->follows_gap() ? " after a gap\n" : "\n");
  }
  std::cout << prices.dropped() << " were dropped\n";
}
// clang-format on

// clang-format off
gyre::task<> serve_time(gyre::nats::client& bus, gyre::nats::subscription requests) {
  while (auto request = co_await requests.next()) {
    co_await bus.publish(request->reply(), "noon");
  }
}

gyre::task<std::string> ask_for_time(gyre::nats::client& bus) {
  try {
    auto reply = co_await bus.request("time", {}, {.timeout = 1min});
    co_return std::string(reply.text());
  } catch (const std::system_error& error) {
    if (error.code() != gyre::nats::errc::no_responders) throw;
    co_return "nobody serves it";
  }
}
// clang-format on

// clang-format off
gyre::task<> stop(gyre::nats::client& bus) {
  co_await bus.drain();
}
// clang-format on

struct NatsGuide : testing::Test {
  gyre::loop loop;
  gyre::test::nats_server server{loop};
  gyre::nats::client bus{loop, server.address()};

  // Runs `first`, and `second` until the client was drained after it.
  std::string printed_by(gyre::task<> first, gyre::task<> second) {
    testing::internal::CaptureStdout();
    auto drain_after = [](gyre::nats::client& drained, gyre::task<> before) -> gyre::task<> {
      co_await std::move(before);
      co_await stop(drained);
    };
    auto both = [](gyre::task<> one, gyre::task<> other) -> gyre::task<> {
      co_await gyre::when_all(std::move(one), std::move(other));
    };
    gyre::sync_wait(loop, both(std::move(first), drain_after(bus, std::move(second))));
    return testing::internal::GetCapturedStdout();
  }
};

TEST_F(NatsGuide, PublishesAndSubscribes) {
  EXPECT_EQ(printed_by(print_orders(bus), place_orders(bus)),
            "orders.new: 7 apples\norders.changed: 8 apples\n");
}

gyre::task<> submit_and_flush(gyre::nats::client& bus) {
  co_await submit(bus);
  co_await bus.flush();
}

TEST_F(NatsGuide, SharesWork) {
  EXPECT_EQ(printed_by(work(bus), submit_and_flush(bus)), "resize cat.jpg\n");
}

TEST_F(NatsGuide, DropsMessages) {
  testing::internal::CaptureStdout();
  gyre::sync_wait(loop, follow_prices(bus));
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "4 after a gap\n5\n3 were dropped\n");
}

TEST_F(NatsGuide, AsksForTheTime) {
  EXPECT_EQ(gyre::sync_wait(loop, ask_for_time(bus)), "nobody serves it");
  auto ask = [](gyre::nats::client& asking) -> gyre::task<> {
    const std::string time = co_await ask_for_time(asking);
    std::cout << time;
  };
  EXPECT_EQ(printed_by(serve_time(bus, bus.subscribe("time")), ask(bus)), "noon");
}

}  // namespace
}  // namespace nats_guide_test

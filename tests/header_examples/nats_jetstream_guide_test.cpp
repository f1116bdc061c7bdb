// SPDX-License-Identifier: Apache-2.0
// The programs of docs/guide/nats.md that use JetStream, keys and values, and services.
#include <gyre/engines/nats/call_service.hpp>
#include <gyre/engines/nats/client.hpp>
#include <gyre/engines/nats/jetstream.hpp>
#include <gyre/engines/nats/key_value.hpp>
#include <gyre/engines/nats/service.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/when_all.hpp>
#include <tests/support/nats_server.hpp>
#include <tests/support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <string>
#include <utility>

namespace nats_jetstream_guide_test {
namespace {

using namespace std::chrono_literals;

struct NatsJetStreamGuide : testing::Test {
  gyre::loop loop;
  gyre::test::temporary_folder store;
  gyre::test::nats_server server{loop, "jetstream { store_dir: \"" + store.path() + "\" }\n"};
  gyre::nats::client bus{loop, server.address()};
};

// clang-format off
gyre::task<> store_orders(gyre::nats::client& bus) {
  gyre::nats::jetstream streams(bus);
  const gyre::nats::stream_config orders{.name = "ORDERS", .subjects = {"orders.>"}};
  co_await streams.create_stream(orders);
  for (int number = 1; number <= 3; ++number) {
    const std::string id = "order-" + std::to_string(number);
    auto ack = co_await streams.publish("orders.new", "apples", {.message_id = id});
    std::cout << id << " is message " << ack.sequence << '\n';
  }
}

gyre::task<> ship_orders(gyre::nats::client& bus, int count) {
  gyre::nats::jetstream streams(bus);
  const gyre::nats::consumer_config config{.name = "shipping", .ack_wait = 1min};
  auto shipping = co_await streams.create_consumer("ORDERS", config);
  gyre::nats::consumer_messages orders = shipping.messages();
  for (; count > 0; --count) {
    auto order = co_await orders.next();
    std::cout << "shipping " << order->text() << '\n';
    co_await order->ack();
  }
}
// clang-format on

TEST_F(NatsJetStreamGuide, StoresOrders) {
  testing::internal::CaptureStdout();
  gyre::sync_wait(loop, store_orders(bus));
  gyre::sync_wait(loop, ship_orders(bus, 3));
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "order-1 is message 1\norder-2 is message 2\norder-3 is message 3\n"
            "shipping apples\nshipping apples\nshipping apples\n");
}

// clang-format off
gyre::task<> change_limit(gyre::nats::client& bus) {
  gyre::nats::jetstream streams(bus);
  const gyre::nats::key_value_config config{.bucket = "settings", .history = 5};
  auto settings = co_await gyre::nats::key_value::create(streams, config);
  co_await settings.put("limits.upload", "10M");
  auto limit = co_await settings.get("limits.upload");
  co_await settings.update("limits.upload", "20M", limit->revision);
}

gyre::task<> print_limits(gyre::nats::client& bus) {
  gyre::nats::jetstream streams(bus);
  auto settings = co_await gyre::nats::key_value::open(streams, "settings");
  gyre::nats::key_value_watch limits = co_await settings.watch("limits.*");
  while (auto limit = co_await limits.next_initial()) {
    std::cout << limit->key << " is " << limit->value << '\n';
  }
}
// clang-format on

TEST_F(NatsJetStreamGuide, ChangesALimit) {
  testing::internal::CaptureStdout();
  gyre::sync_wait(loop, change_limit(bus));
  gyre::sync_wait(loop, print_limits(bus));
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "limits.upload is 20M\n");
}

// clang-format off
gyre::task<gyre::nats::service_response> find_price(const gyre::nats::service_request& request) {
  if (request.text() != "tea") throw gyre::nats::service_error(404, "there is no such item");
  co_return "3";
}

gyre::task<> serve_prices(gyre::nats::client& bus, gyre::manual_reset_event& shutdown) {
  gyre::nats::service prices(bus, {.name = "prices", .version = "1.0.0"});
  prices.add_endpoint("price", find_price, {.max_concurrent = 16, .timeout = 2s});
  co_await shutdown.wait();
  co_await prices.drain();
}

gyre::task<std::string> ask_for_price(gyre::nats::client& bus, std::string item) {
  try {
    auto price = co_await gyre::nats::call_service(bus, "price", item, {.timeout = 10s});
    co_return std::string(price.text());
  } catch (const gyre::nats::service_error& error) {
    co_return std::to_string(error.code()) + ": " + error.text();
  }
}
// clang-format on

TEST_F(NatsJetStreamGuide, ServesPrices) {
  gyre::nats::client caller(loop, server.address());
  gyre::manual_reset_event shutdown;
  auto ask = [&]() -> gyre::task<> {
    for (;;) {
      const auto found = co_await gyre::nats::find_services(caller, "prices", {.max_instances = 1});
      if (!found.empty()) break;
    }
    EXPECT_EQ(co_await ask_for_price(caller, "tea"), "3");
    EXPECT_EQ(co_await ask_for_price(caller, "gold"), "404: there is no such item");
    shutdown.set();
  };
  auto run = [&]() -> gyre::task<> {
    auto serving = serve_prices(bus, shutdown);
    auto asking = ask();
    co_await gyre::when_all(std::move(serving), std::move(asking));
  };
  gyre::sync_wait(loop, run());
}

}  // namespace
}  // namespace nats_jetstream_guide_test

// SPDX-License-Identifier: Apache-2.0
// The examples in the comments of the headers of JetStream, keys and values, and services of NATS.
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
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace nats_jetstream_examples_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::nats::service_error;
using gyre::nats::service_request;
using gyre::nats::service_response;

struct NatsJetStreamExamples : testing::Test {
  gyre::loop loop;
  gyre::test::temporary_folder store;
  gyre::test::nats_server server{loop, "jetstream { store_dir: \"" + store.path() + "\" }\n"};
  gyre::nats::client bus{loop, server.address()};
};

std::string shipped;

task<> ship(std::string_view order) {
  shipped += order;
  co_return;
}
bool is_valid(std::string_view order) { return !order.empty(); }

// gyre/engines/nats/jetstream.hpp, jetstream_error.hpp
task<> use_jetstream(gyre::nats::client& bus, std::string order) {
  // clang-format off
  gyre::nats::jetstream streams(bus);
  const gyre::nats::stream_config orders{.name = "ORDERS", .subjects = {"orders.>"}};
  co_await streams.create_stream(orders);
  auto ack = co_await streams.publish("orders.new", order, {.message_id = "order-17"});
  // clang-format on
  EXPECT_EQ(ack.sequence, 1U);
  // clang-format off
  try {
    co_await streams.create_stream(orders);
  } catch (const gyre::nats::server_error& error) {
    if (error.code() != gyre::nats::jetstream_errc::stream_name_in_use) throw;
  }
  // clang-format on
}

// gyre/engines/nats/consumer.hpp, consumer_messages.hpp
task<> use_consumer(gyre::nats::client& bus) {
  const gyre::nats::jetstream streams(bus);
  {
    // clang-format off
    const gyre::nats::consumer_config shipping{.name = "shipping"};
    gyre::nats::consumer orders = co_await streams.create_consumer("ORDERS", shipping);
    for (auto& order : co_await orders.fetch(10, {.expires = 1s})) {
      co_await ship(order.text());
      co_await order.ack();
    }
    // clang-format on
  }
  const gyre::nats::consumer made = co_await streams.consumer("ORDERS", "shipping");
  co_await streams.publish("orders.new", "second");
  auto close_when_shipped = [](gyre::nats::client& closed) -> task<> {
    while (shipped != "firstsecond") co_await closed.flush();
    co_await closed.flush();
    closed.close();
  };
  auto read = [](const gyre::nats::consumer& source) -> task<> {
    const auto& shipping = source;
    // clang-format off
    gyre::nats::consumer_messages orders = shipping.messages();
    while (auto order = co_await orders.next()) {
      co_await ship(order->text());
      co_await order->ack();
    }
    // clang-format on
  };
  auto reading = read(made);
  auto closing = close_when_shipped(bus);
  co_await gyre::when_all(std::move(reading), std::move(closing));
}

TEST_F(NatsJetStreamExamples, StreamsAreUsed) {
  gyre::sync_wait(loop, use_jetstream(bus, "first"));
  gyre::sync_wait(loop, use_consumer(bus));
  EXPECT_EQ(shipped, "firstsecond");
}

// gyre/engines/nats/jetstream_message.hpp
task<> acknowledge(gyre::nats::jetstream_message& order) {
  // clang-format off
  if (is_valid(order.text())) {
    co_await order.ack();
  } else {
    co_await order.term("it is no order");
  }
  // clang-format on
}

task<> use_messages(gyre::nats::client& bus) {
  const gyre::nats::jetstream streams(bus);
  const gyre::nats::consumer_config config{.name = "c"};
  const auto orders = co_await streams.create_consumer("ORDERS", config);
  co_await streams.publish("orders.new", "");
  for (auto& order : co_await orders.fetch(2, {.expires = 100s, .waits_for_all = true})) {
    co_await acknowledge(order);
  }
  for (;;) {
    const auto info = co_await orders.info();
    if (info.ack_pending == 0) break;
  }
}

TEST_F(NatsJetStreamExamples, MessagesAreAcknowledged) {
  gyre::sync_wait(loop, use_jetstream(bus, "first"));
  gyre::sync_wait(loop, use_messages(bus));
}

// gyre/engines/nats/stream_config.hpp, consumer_config.hpp, key_value_config.hpp
TEST(NatsConfigExamples, ConfigurationsAreMade) {
  // clang-format off
  gyre::nats::stream_config orders{.name = "ORDERS", .subjects = {"orders.>"}};
  orders.replicas = 3;
  orders.max_age = 24h;
  // clang-format on
  EXPECT_EQ(orders.max_age, 24h);
  // clang-format off
  gyre::nats::consumer_config shipping{.name = "shipping"};
  shipping.filter_subjects = {"orders.paid"};
  shipping.ack_wait = 1min;
  // clang-format on
  EXPECT_EQ(shipping.ack_wait, 1min);
  // clang-format off
  gyre::nats::key_value_config sessions{.bucket = "sessions", .time_to_live = 1h};
  // clang-format on
  EXPECT_EQ(sessions.time_to_live, 1h);
}

// gyre/engines/nats/key_value.hpp, key_value_watch.hpp
task<> use_keys(gyre::nats::client& bus) {
  const gyre::nats::jetstream streams(bus);
  // clang-format off
  const gyre::nats::key_value_config config{.bucket = "settings", .history = 5};
  auto settings = co_await gyre::nats::key_value::create(streams, config);

  co_await settings.put("limits.upload", "10M");
  auto limit = co_await settings.get("limits.upload");
  co_await settings.update("limits.upload", "20M", limit->revision);
  // clang-format on
  std::map<std::string, std::string> applied;
  gyre::manual_reset_event ready;
  const auto apply = [&](const gyre::nats::key_value_entry& entry) {
    applied[entry.key] = entry.value;
    if (entry.value == "30M") bus.close();
  };
  auto change = [&]() -> task<> {
    co_await ready.wait();
    co_await settings.put("limits.upload", "30M");
  };
  auto follow = [&]() -> task<> {
    // clang-format off
    gyre::nats::key_value_watch changes = co_await settings.watch("limits.*");
    while (auto entry = co_await changes.next_initial()) apply(*entry);
    ready.set();  // all present values were applied
    while (auto entry = co_await changes.next()) apply(*entry);
    // clang-format on
  };
  auto changing = change();
  auto following = follow();
  co_await gyre::when_all(std::move(changing), std::move(following));
  EXPECT_EQ(applied["limits.upload"], "30M");
}

TEST_F(NatsJetStreamExamples, KeysAreUsed) { gyre::sync_wait(loop, use_keys(bus)); }

task<std::string> find_price(std::string_view item) { co_return item == "tea" ? "3" : "1"; }

task<> call_price(gyre::nats::client& bus, gyre::manual_reset_event& done) {
  for (;;) {
    const auto found = co_await gyre::nats::find_services(bus, "orders", {.max_instances = 1});
    if (!found.empty()) break;
  }
  // clang-format off
  auto price = co_await gyre::nats::call_service(bus, "price", "tea", {.timeout = 10s});
  // clang-format on
  EXPECT_EQ(price.text(), "3");
  done.set();
}

// gyre/engines/nats/service.hpp, service_error.hpp, call_service.hpp
task<> use_service(gyre::nats::client& bus, gyre::nats::client& caller) {
  gyre::manual_reset_event shutdown;
  const auto shutdown_requested = [&] { return shutdown.wait(); };
  auto serve = [&]() -> task<> {
    // clang-format off
    gyre::nats::service orders(bus, {.name = "orders", .version = "1.0.0"});
    orders.add_endpoint("price", [](const service_request& request) -> task<service_response> {
      if (request.text().empty()) throw service_error(400, "name an item");
      co_return co_await find_price(request.text());
    });
    co_await shutdown_requested();
    co_await orders.drain();
    // clang-format on
  };
  auto serving = serve();
  auto calling = call_price(caller, shutdown);
  co_await gyre::when_all(std::move(serving), std::move(calling));
}

void refuse_order() {
  // clang-format off
  throw gyre::nats::service_error(404, "there is no such order");
  // clang-format on
}

TEST_F(NatsJetStreamExamples, ServicesAreUsed) {
  gyre::nats::client caller(loop, server.address());
  gyre::sync_wait(loop, use_service(bus, caller));
  EXPECT_THROW(refuse_order(), gyre::nats::service_error);
}

}  // namespace
}  // namespace nats_jetstream_examples_test

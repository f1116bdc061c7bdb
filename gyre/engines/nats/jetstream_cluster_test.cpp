// SPDX-License-Identifier: Apache-2.0
// JetStream at a cluster of three servers, which loses the leader of a stream under load.
#include <gyre/engines/nats/call_service.hpp>
#include <gyre/engines/nats/client.hpp>
#include <gyre/engines/nats/client_test_support.hpp>
#include <gyre/engines/nats/jetstream.hpp>
#include <gyre/engines/nats/key_value.hpp>
#include <gyre/engines/nats/service.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>
#include <tests/support/nats_cluster.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace jetstream_cluster_test {
namespace {

using namespace std::chrono_literals;
using gyre::as_expected;
using gyre::task;
using gyre::nats::client;
using gyre::nats::client_options;
using gyre::nats::consumer;
using gyre::nats::consumer_config;
using gyre::nats::consumer_messages;
using gyre::nats::jetstream;
using gyre::nats::jetstream_options;
using gyre::nats::publish_ack;
using gyre::nats::service;
using gyre::nats::service_request;
using gyre::nats::service_response;
using gyre::nats::stream_config;
using gyre::nats::stream_info;
using gyre::test::nats_cluster;

const client_options patient{
    .max_connect_attempts = 1'000'000, .initial_delay = 10ms, .longest_delay = 100ms};
const jetstream_options persistent{
    .timeout = 100s, .no_stream_timeout = 100s, .attempt_timeout = 500ms};

struct JetStreamCluster : testing::Test {
  gyre::loop loop;
  nats_cluster cluster{loop};

  void run(task<> test) { gyre::sync_wait(loop, gyre::with_timeout(std::move(test), 280s)); }
  client connect() { return client(loop, cluster.addresses(), patient); }
};

// Creates a stream of three servers, once the cluster is ready for it.
task<> create_stream(const jetstream& streams) {
  const stream_config config{.name = "ORDERS", .subjects = {"orders"}, .replicas = 3};
  for (;;) {
    const auto created = co_await as_expected(streams.create_stream(config));
    if (created) co_return;
    co_await gyre::sleep_for(50ms);
  }
}

// Waits until each server has all of the stream: with one missing, the loss of a second one would
// leave no majority.
task<> wait_for_replicas(const jetstream& streams, std::string stream) {
  for (;;) {
    const auto info = co_await as_expected(streams.stream(stream));
    const bool is_whole =
        info && !info->cluster.leader.empty() && info->cluster.replicas.size() == 2 &&
        std::ranges::all_of(info->cluster.replicas, [](const gyre::nats::replica_info& each) {
          return each.is_current && !each.is_offline;
        });
    if (is_whole) co_return;
    co_await gyre::sleep_for(50ms);
  }
}

// A number, each published until it is acknowledged.
struct published {
  std::set<int> acknowledged;
  std::size_t duplicates = 0;  // acknowledged by an earlier attempt's id
  std::size_t failures = 0;    // calls that gave up
  int publishing = 2;          // coroutines
};

task<> publish(const jetstream& streams, published& results, int first, int step,
               const bool& end_flag) {
  int each = first - step;
  while (!end_flag) {
    each += step;
    const std::string text = std::to_string(each);
    const auto ack = co_await as_expected(streams.publish("orders", text, {.message_id = text}));
    if (!ack) {
      ++results.failures;
      continue;
    }
    results.acknowledged.insert(each);
    if (ack->is_duplicate) ++results.duplicates;
  }
  --results.publishing;
}

struct delivered {
  std::map<int, int> counts;  // of each number
};

task<> consume(consumer_messages& messages, delivered& results) {
  while (auto order = co_await messages.next()) {
    ++results.counts[std::stoi(std::string(order->text()))];
    co_await order->ack();
  }
}

task<> serve(service& orders) { co_await orders.wait(); }

task<service_response> echo(const service_request& request) {
  co_return std::string(request.text());
}

struct called {
  std::size_t replies = 0;
  std::size_t errors = 0;
};

task<> call(client& bus, called& results, const bool& end_flag) {
  int each = 0;
  while (!end_flag) {
    const std::string text = std::to_string(++each);
    const auto reply =
        co_await as_expected(gyre::nats::call_service(bus, "echo", text, {.timeout = 1s}));
    ++(reply ? results.replies : results.errors);
    if (reply) {
      EXPECT_EQ(reply->text(), text);  // never that of another call
    }
    co_await gyre::sleep_for(1ms);
  }
}

// The losses and repetitions of JetStream are reported, and only the losses of acknowledged
// messages are a failure here: two of three servers have each of them, and one is killed.
TEST_F(JetStreamCluster, LosesTheLeaderOfAStreamUnderLoad) {
  run([](JetStreamCluster& test) -> task<> {
    client publishing = test.connect();
    client consuming = test.connect();
    client serving = test.connect();
    const jetstream streams(publishing, persistent);
    const jetstream consumers(consuming, persistent);
    co_await create_stream(streams);
    co_await wait_for_replicas(streams, "ORDERS");
    consumer_config config{.name = "c"};
    config.ack_wait = 5s;
    const consumer orders = co_await consumers.create_consumer("ORDERS", config);
    consumer_messages messages = orders.messages({.heartbeat = 500ms});
    service echoing(serving, {.name = "echo", .version = "1.0.0"});
    echoing.add_endpoint("echo", echo);
    co_await serving.flush();

    published sent;
    delivered received;
    called calls;
    bool is_over = false;
    auto lose_leaders = [](JetStreamCluster& fixture, const jetstream& context,
                           const published& results, const called& call_results,
                           const delivered& deliveries, client& requester, service& responder,
                           bool& end_flag) -> task<> {
      for (int each = 0; each < 2; ++each) {
        const std::size_t acknowledged = results.acknowledged.size();
        while (results.acknowledged.size() < acknowledged + 100) co_await gyre::sleep_for(1ms);
        const stream_info info = co_await context.stream("ORDERS");
        const std::size_t lost = fixture.cluster.index_of(info.cluster.leader);
        co_await fixture.cluster.kill(lost);
        // Publishing, consuming and the service go on while one server is missing.
        const std::size_t before = results.acknowledged.size();
        const std::size_t replies = call_results.replies;
        while (results.acknowledged.size() < before + 100 || call_results.replies < replies + 10) {
          co_await gyre::sleep_for(1ms);
        }
        co_await fixture.cluster.start_again(lost);
        co_await wait_for_replicas(context, "ORDERS");
      }
      end_flag = true;
      // All acknowledged messages are delivered in the end.
      const auto is_complete = [&] {
        if (results.publishing > 0) return false;
        for (const int each : results.acknowledged) {
          if (!deliveries.counts.contains(each)) return false;
        }
        return true;
      };
      while (!is_complete()) co_await gyre::sleep_for(1ms);
      responder.stop();
      requester.close();
    };
    auto all = gyre::when_all(
        publish(streams, sent, 0, 2, is_over), publish(streams, sent, 1, 2, is_over),
        consume(messages, received), call(publishing, calls, is_over), serve(echoing),
        lose_leaders(test, streams, sent, calls, received, consuming, echoing, is_over));
    co_await std::move(all);

    std::size_t repeated = 0;
    std::size_t unacknowledged = 0;
    for (const auto& [number, count] : received.counts) {
      repeated += static_cast<std::size_t>(count - 1);
      unacknowledged += sent.acknowledged.contains(number) ? 0 : 1;
    }
    const stream_info info = co_await streams.stream("ORDERS");
    // Each number is stored once, whatever was sent twice.
    EXPECT_EQ(info.state.messages, received.counts.size());
    RecordProperty("acknowledged", std::to_string(sent.acknowledged.size()));
    RecordProperty("acknowledged_as_duplicates", std::to_string(sent.duplicates));
    RecordProperty("failed_publishes", std::to_string(sent.failures));
    RecordProperty("delivered_more_than_once", std::to_string(repeated));
    RecordProperty("delivered_without_acknowledgement", std::to_string(unacknowledged));
    RecordProperty("service_replies", std::to_string(calls.replies));
    RecordProperty("service_errors", std::to_string(calls.errors));
    std::printf(
        "acknowledged %zu (%zu as duplicates), failed %zu; delivered again %zu, stored without an "
        "acknowledgement %zu; service: %zu replies, %zu errors\n",
        sent.acknowledged.size(), sent.duplicates, sent.failures, repeated, unacknowledged,
        calls.replies, calls.errors);
  }(*this));
}

TEST_F(JetStreamCluster, AWatchLastsOverTheLossOfServers) {
  run([](JetStreamCluster& test) -> task<> {
    client bus = test.connect();
    const jetstream streams(bus, persistent);
    co_await create_stream(streams);
    const gyre::nats::key_value_config config{.bucket = "settings", .replicas = 3};
    const auto settings = co_await gyre::nats::key_value::create(streams, config);
    co_await wait_for_replicas(streams, "KV_settings");
    auto watch = co_await settings.watch();
    for (int each = 0; each < 3; ++each) {
      const std::size_t lost = static_cast<std::size_t>(each);
      co_await test.cluster.kill(lost);
      const std::string value = std::to_string(each);
      for (;;) {  // a put whose acknowledgement was lost would wait for 100 s
        const auto put = co_await as_expected(gyre::with_timeout(settings.put("a", value), 2s));
        if (put) break;
      }
      for (;;) {
        const auto entry = co_await watch.next();
        EXPECT_TRUE(entry);
        if (entry->value == value) break;
      }
      co_await test.cluster.start_again(lost);
      co_await wait_for_replicas(streams, "KV_settings");
    }
  }(*this));
}

}  // namespace
}  // namespace jetstream_cluster_test

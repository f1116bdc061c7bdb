// SPDX-License-Identifier: Apache-2.0
// A NATS client at a cluster of three servers, of which it loses some.
#include <gyre/engines/nats/client.hpp>
#include <gyre/engines/nats/client_test_support.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/error.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>
#include <tests/support/nats_server.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace nats_client_cluster_test {
namespace {

using namespace std::chrono_literals;
using gyre::as_expected;
using gyre::task;
using gyre::nats::client;
using gyre::nats::client_options;
using gyre::nats::errc;
using gyre::nats::notice;
using gyre::nats::subscription;
using gyre::test::nats_server;
using nats_test::echo;
using nats_test::notices;

constexpr std::size_t many = 1'000'000;  // attempts to connect

// A loop, and three servers that know each other.
struct NatsCluster : testing::Test {
  gyre::loop loop;
  std::vector<std::unique_ptr<nats_server>> servers;

  NatsCluster() {
    std::string routes;
    for (int each = 0; each < 3; ++each) {
      servers.push_back(std::make_unique<nats_server>(
          loop, "server_name: n" + std::to_string(each) +
                    "\ncluster { name: c, listen: \"127.0.0.1:-1\", pool_size: -1" + routes +
                    " }"));
      if (each == 0) {
        routes = ", routes: [\"nats://" + servers.front()->cluster_address() + "\"]";
      }
    }
  }

  void run(task<> test) { gyre::sync_wait(loop, gyre::with_timeout(std::move(test), 250s)); }
  client connect(client_options options = {}) {
    options.max_connect_attempts = many;
    options.initial_delay = 1ms;
    return client(loop, servers.front()->address(), nats_test::patient(options));
  }
  nats_server& server_of(const client& bus) {
    for (const auto& each : servers) {
      if (each->port() == std::to_string(bus.server().port)) return *each;
    }
    throw std::runtime_error("the client has another server");
  }
};

task<> wait_for_servers(client& bus, std::size_t count) {
  while (bus.metrics().servers < count) co_await bus.flush();
}

// Until each server has found both others, the loss of one could divide them for ever.
task<> wait_for_cluster(NatsCluster& test) {
  for (const auto& each : test.servers) {
    client finder(test.loop, each->address());
    co_await wait_for_servers(finder, 3);
  }
}

TEST_F(NatsCluster, MovesToAnotherServer) {
  run([](NatsCluster& test) -> task<> {
    co_await wait_for_cluster(test);
    client bus = test.connect();
    notices events(bus);
    co_await wait_for_servers(bus, 3);
    EXPECT_EQ(bus.server().cluster, "c");
    subscription all = bus.subscribe("a");
    co_await bus.flush();
    for (int each = 0; each < 2; ++each) {
      co_await test.server_of(bus).kill();
      static_cast<void>(co_await events.wait_for(notice::disconnected));
      static_cast<void>(co_await events.wait_for(notice::connected));
      co_await bus.publish("a", "still here");
      const auto received = co_await all.next();
      EXPECT_EQ(received->text(), "still here");
      EXPECT_TRUE(received->follows_gap());
    }
    EXPECT_EQ(bus.metrics().connected, 3U);
  }(*this));
}

TEST_F(NatsCluster, StaysAtItsOwnServersIfItIsTold) {
  run([](NatsCluster& test) -> task<> {
    co_await wait_for_cluster(test);
    client bus = test.connect({.ignore_discovered_servers = true});
    co_await bus.flush();
    EXPECT_EQ(bus.metrics().servers, 1U);
    notices events(bus);
    co_await test.servers.front()->kill();
    static_cast<void>(co_await events.wait_for(notice::disconnected));
    co_await gyre::when_all(bus.flush(), test.servers.front()->start_again());
    EXPECT_EQ(bus.server().name, "n0");
  }(*this));
}

// Requests go on while the cluster loses the server of the service, and that of the asking client;
// each has its own reply or an error.
TEST_F(NatsCluster, ServesRequestsWhileItLosesServers) {
  run([](NatsCluster& test) -> task<> {
    co_await wait_for_cluster(test);
    client service = test.connect();
    client bus = test.connect();
    co_await wait_for_servers(service, 3);
    co_await wait_for_servers(bus, 3);
    subscription requests = service.subscribe("echo");
    co_await service.flush();
    std::array<int, 2> counts{};  // replies, errors
    bool is_over = false;
    auto ask = [](client& requester, std::array<int, 2>& results, const bool& has_ended,
                  int asker) -> task<> {
      int each = 0;
      while (!has_ended) {
        const std::string text = std::to_string(asker) + '.' + std::to_string(++each);
        const auto reply =
            co_await as_expected(requester.request("echo", text, {.timeout = 200ms}));
        ++results[reply ? 0 : 1];
        if (reply) {
          EXPECT_EQ(reply->text(), text + '!');
          continue;
        }
        EXPECT_TRUE(reply.error() == errc::connection_lost ||
                    reply.error() == errc::no_responders || reply.error() == errc::request_timeout)
            << reply.error().message();
        co_await gyre::sleep_for(1ms);
      }
    };
    auto lose = [](NatsCluster& fixture, client& requester, client& responder, bool& has_ended,
                   std::array<int, 2>& results) -> task<> {
      const auto wait_for_replies = [](std::array<int, 2>& totals) -> task<> {
        const int wanted = totals[0] + 200;
        while (totals[0] < wanted) co_await gyre::sleep_for(1ms);
      };
      co_await wait_for_replies(results);
      co_await fixture.server_of(responder).kill();
      co_await wait_for_replies(results);
      co_await requester.flush();
      co_await fixture.server_of(requester).kill();
      co_await wait_for_replies(results);
      has_ended = true;
    };
    auto end = [](std::vector<task<>> calls, client& responder) -> task<> {
      co_await gyre::when_all(std::move(calls));
      co_await responder.drain();
    };
    std::vector<task<>> asking;
    for (int each = 0; each < 10; ++each) asking.push_back(ask(bus, counts, is_over, each));
    co_await gyre::when_all(echo(service, std::move(requests)), end(std::move(asking), service),
                            lose(test, bus, service, is_over, counts));
    EXPECT_GE(counts[0], 600);
    EXPECT_EQ(bus.metrics().in_flight, 0U);
  }(*this));
}

}  // namespace
}  // namespace nats_client_cluster_test

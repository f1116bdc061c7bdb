// SPDX-License-Identifier: Apache-2.0
// Tests that no function and no option of the network takes a very long time of a coarse unit for a
// short one.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/http/client.hpp>
#include <gyre/http/cookie.hpp>
#include <gyre/http/event_stream.hpp>
#include <gyre/http/server.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/net/connect.hpp>
#include <gyre/net/connection_pool.hpp>
#include <gyre/net/reconnecting_client.hpp>
#include <gyre/net/resolver.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/net/tcp_client.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/net/udp_client.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/testing/fake_dns_server.hpp>
#include <gyre/tls/tls_test_support.hpp>
#include <gyre/tls/transport.hpp>
#include <tests/support/io_in_virtual_time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/socket.h>

#include <chrono>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace http_longest_durations_test {
namespace {

using namespace gyre::net::test;
using gyre::task;
using gyre::io::input;
using gyre::net::connection_options;
using gyre::net::connection_pool;
using gyre::net::endpoint;
using gyre::net::tcp_client;
using gyre::net::tcp_connection;
using gyre::net::tcp_server;
using testing::HasSubstr;

struct milliseconds {
  static constexpr auto longest = std::chrono::milliseconds::max();
};
struct hours {
  static constexpr auto longest = std::chrono::hours::max();
};
struct thousand_years {
  static constexpr auto longest = std::chrono::years{1000};
};

template <class Unit>
class LongestTimesOfConnections : public testing::Test {
 public:
  static constexpr auto longest = Unit::longest;
  static connection_options all_longest() {
    return {.idle_timeout = longest,
            .message_timeout = longest,
            .write_timeout = longest,
            .close_timeout = longest,
            .close_limit = longest};
  }
};

using units = testing::Types<milliseconds, hours, thousand_years>;
TYPED_TEST_SUITE(LongestTimesOfConnections, units);

// ---- net

TYPED_TEST(LongestTimesOfConnections, AServerKeepsThemUntilTheyEnd) {
  gyre::test::io_in_virtual_time virtual_time;
  tcp_server server(virtual_time.loop, {.connections = this->all_longest(),
                                        .accepts_per_address = 1,
                                        .accept_interval = this->longest,
                                        .accept_backoff = this->longest,
                                        .accept_backoff_limit = this->longest});
  bool has_message = false;
  server.on_connection([](tcp_connection& c) { c.set_idle_timeout(TestFixture::longest); });
  server.on_message([&](tcp_connection&, input&) { has_message = true; });  // it is incomplete
  server.listen(any_port());
  server.start();
  peer first(server.local_endpoint());
  first.send("x");
  virtual_time.turn_until([&] { return has_message; });
  virtual_time.advance(24h);
  virtual_time.settle();
  const peer second(server.local_endpoint());
  virtual_time.turn_until([&] { return server.metrics().limited == 1; });
  EXPECT_EQ(server.metrics().connections, 1U);
  bool is_stopped = false;
  server.stop(this->longest, [&] { is_stopped = true; });
  virtual_time.settle();
  virtual_time.advance(24h);
  virtual_time.settle();
  EXPECT_FALSE(is_stopped);
  first.close();
  virtual_time.turn_until([&] { return is_stopped; });
}

TYPED_TEST(LongestTimesOfConnections, AClientConnects) {
  gyre::loop loop;
  tcp_server server(loop);
  server.listen(any_port());
  server.start();
  bool is_connected = false;
  tcp_client client(loop, {.connections = this->all_longest(),
                           .connect_timeout = this->longest,
                           .resolution_delay = this->longest,
                           .initial_delay = this->longest,
                           .longest_delay = this->longest});
  client.on_connection([&](tcp_connection&) { is_connected = true; });
  client.connect(server.local_endpoint());
  turn_until(loop, [&] { return is_connected; });
}

TYPED_TEST(LongestTimesOfConnections, APoolUsesThemAgain) {
  gyre::loop loop;
  const gyre::net::tcp_listener listener(loop, any_port());
  connection_pool pool(loop, listener.local_endpoint().to_string(),
                       {.idle_timeout = this->longest,
                        .max_lifetime = this->longest,
                        .connect_timeout = this->longest});
  const auto use = [&]() -> task<> {
    auto connection = co_await pool.acquire();
    connection.give_back();
  };
  gyre::sync_wait(loop, use());
  gyre::sync_wait(loop, use());
  EXPECT_EQ(pool.metrics().reused, 1U);
}

TYPED_TEST(LongestTimesOfConnections, AReconnectingClientCalls) {
  gyre::loop loop;
  const gyre::net::tcp_listener listener(loop, any_port());
  gyre::net::reconnecting_client client(
      loop, listener.local_endpoint().to_string(),
      {.attempts = 1,
       .connect_timeout = this->longest,
       .delay = {.initial = this->longest, .longest = this->longest}});
  const auto call = [](gyre::net::tcp_stream&) -> task<int> { co_return 7; };
  EXPECT_EQ(gyre::sync_wait(loop, client.call(call)), 7);
}

TYPED_TEST(LongestTimesOfConnections, TheFirstAddressIsGivenItsTime) {
  gyre::loop loop;
  const gyre::net::tcp_listener listener(loop, any_port());
  std::vector<endpoint> addresses{listener.local_endpoint(), listener.local_endpoint()};
  auto connecting =
      gyre::net::connect(loop, std::move(addresses),
                         {.attempt_delay = this->longest, .resolution_delay = this->longest});
  EXPECT_TRUE(gyre::sync_wait(loop, std::move(connecting)).is_open());
}

TYPED_TEST(LongestTimesOfConnections, AResolverWaitsForItsServer) {
  gyre::loop loop;
  gyre::testing::fake_dns_server server(loop);
  server["named.test"] = {
      .addresses = {gyre::net::ip_address::loopback_v4(), gyre::net::ip_address::loopback_v6()}};
  gyre::net::resolver names(
      loop, {.servers = {server.local_endpoint()},
             .timeout = this->longest,
             .hosts_file = {},
             .search_domains = std::vector<std::string>{},
             .cache = {.longest_positive = this->longest, .longest_negative = this->longest}});
  EXPECT_EQ(gyre::sync_wait(loop, names.resolve("named.test", 80)).size(), 2U);
  EXPECT_EQ(gyre::sync_wait(loop, names.resolve("named.test", 80)).size(), 2U);
  EXPECT_EQ(names.cache_metrics().hits, 1U);
}

TYPED_TEST(LongestTimesOfConnections, AReceiverOfDatagramsWaits) {
  const gyre::net::socket server =
      gyre::net::socket::open(gyre::net::address_family::ipv4, gyre::net::socket_type::datagram);
  server.bind(any_port());
  gyre::net::udp_client client(server.local_endpoint());
  const endpoint target = client.local_endpoint();
  std::jthread sender(
      [&] { EXPECT_EQ(::sendto(server.fd(), "x", 1, 0, target.data(), target.size()), 1); });
  EXPECT_EQ(client.receive(this->longest)->text(), "x");
}

TYPED_TEST(LongestTimesOfConnections, SocketOptionsTakeTheLongestTimeOfTheKernel) {
  const gyre::net::socket socket =
      gyre::net::socket::open(gyre::net::address_family::ipv4, gyre::net::socket_type::stream);
  socket.set_linger(this->longest);
  EXPECT_EQ(socket.linger(), std::chrono::seconds{std::numeric_limits<int>::max()});
  socket.set_user_timeout(this->longest);
  EXPECT_EQ(socket.user_timeout(), std::chrono::milliseconds{std::numeric_limits<int>::max()});
  socket.set_keep_alive({.idle = this->longest, .interval = this->longest});
  EXPECT_EQ(socket.keep_alive().idle, std::chrono::seconds{32767});
  EXPECT_EQ(socket.keep_alive().interval, std::chrono::seconds{32767});
  EXPECT_NO_THROW(socket.set_defer_accept(this->longest));
}

// ---- http and tls

TYPED_TEST(LongestTimesOfConnections, ARequestOverTlsIsServed) {
  gyre::loop loop;
  gyre::tls::server_options secure = gyre::tls::test::serving();
  secure.handshake_timeout = this->longest;
  secure.ticket_lifetime = this->longest;
  gyre::http::server_options options;
  options.tcp.transport = gyre::tls::server_transport(gyre::tls::tls_context::server(secure));
  options.tcp.connections = this->all_longest();
  options.timeouts = {.first_byte = this->longest,
                      .head = this->longest,
                      .idle = this->longest,
                      .body = this->longest};
  gyre::http::server server(loop, any_port(), options);
  server.post("/", [](gyre::http::request& request) {
    return gyre::http::response::text(std::string(request.body()));
  });
  server.start();
  gyre::tls::client_options trusting = gyre::tls::test::trusting();
  trusting.handshake_timeout = this->longest;
  gyre::http::client client(loop, {.timeouts = {.connect = this->longest,
                                                .handshake = this->longest,
                                                .send = this->longest,
                                                .first_byte = this->longest,
                                                .between_bytes = this->longest,
                                                .expect_continue = this->longest,
                                                .total = this->longest},
                                   .idle_timeout = this->longest,
                                   .max_lifetime = this->longest,
                                   .tls = gyre::tls::tls_context::client(trusting)});
  const std::string url =
      "https://localhost:" + std::to_string(server.local_endpoint().port()) + "/";
  const auto ask = [&]() -> task<std::string> {
    gyre::http::client_request request(gyre::http::method::post, url);
    request.set_body("text/plain", "hello").expect_continue();
    request.set_total_timeout(TestFixture::longest);
    const gyre::http::client_response response = co_await client.send(std::move(request));
    co_return std::string(response.body());
  };
  EXPECT_EQ(gyre::sync_wait(loop, ask()), "hello");
  EXPECT_EQ(gyre::sync_wait(loop, ask()), "hello");
  EXPECT_EQ(server.metrics().tcp.accepted, 1U);
}

TYPED_TEST(LongestTimesOfConnections, AServerStopsWhenItsRequestsHaveEnded) {
  gyre::test::io_in_virtual_time virtual_time;
  gyre::http::server server(virtual_time.loop, any_port());
  server.get("/", [](gyre::http::request&) -> task<gyre::http::response> {
    co_await gyre::sleep_for(24h);
    co_return gyre::http::response::text("slow");
  });
  server.start();
  peer client(server.local_endpoint());
  client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  virtual_time.turn_until([&] { return server.metrics().active == 1; });
  virtual_time.settle();
  bool is_stopped = false;
  server.stop(this->longest, [&] { is_stopped = true; });
  virtual_time.settle();
  virtual_time.advance(25h);
  virtual_time.turn_until([&] {
    client.receive();
    return client.ended;
  });
  EXPECT_THAT(client.text, HasSubstr("slow"));
  client.close();
  virtual_time.turn_until([&] { return is_stopped; });
}

TYPED_TEST(LongestTimesOfConnections, AnEventStreamSendsNoComments) {
  gyre::test::io_in_virtual_time virtual_time;
  gyre::http::server server(virtual_time.loop, any_port());
  server.get("/", [](gyre::http::request&) {
    return gyre::http::event_stream(
        [](gyre::http::event_writer& events) -> task<> {
          co_await gyre::sleep_for(24h);
          co_await events.send({.data = "late", .retry = TestFixture::longest});
        },
        {.keep_alive = TestFixture::longest});
  });
  server.start();
  peer client(server.local_endpoint());
  client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  virtual_time.turn_until([&] { return server.metrics().active == 1; });
  virtual_time.settle();
  virtual_time.advance(25h);
  virtual_time.turn_until([&] {
    client.receive();
    return client.ended;
  });
  EXPECT_THAT(client.text, HasSubstr("\r\n\r\n21\r\nretry: 9223372036855\ndata: late\n\n"));
}

TYPED_TEST(LongestTimesOfConnections, ACookieLivesForCenturies) {
  EXPECT_THAT(gyre::http::set_cookie("a", "b").max_age(this->longest).to_string(),
              HasSubstr("; Max-Age=9223372037"));
}

// ---- options

TEST(NegativeTimesOfConnections, AreRefusedAsOptions) {
  gyre::loop loop;
  EXPECT_THROW(tcp_server(loop, {.accept_backoff = -1ns}), std::invalid_argument);
  EXPECT_THROW(tcp_server(loop, {.accept_backoff_limit = -1ns}), std::invalid_argument);
  EXPECT_THROW(tcp_server(loop, {.proxy_protocol = {.timeout = -1ns}}), std::invalid_argument);
  EXPECT_THROW(gyre::net::resolver(loop, {.timeout = -1h}), std::invalid_argument);
  EXPECT_THROW(gyre::net::resolver(loop, {.cache = {.longest_positive = -1h}}),
               std::invalid_argument);
  EXPECT_THROW(gyre::net::resolver(loop, {.cache = {.longest_negative = -1h}}),
               std::invalid_argument);
  EXPECT_THROW(gyre::http::client(loop, {.timeouts = {.connect = -1s}}), std::invalid_argument);
  EXPECT_THROW(gyre::http::client(loop, {.timeouts = {.total = -1s}}), std::invalid_argument);
  EXPECT_THROW(gyre::http::client(loop, {.idle_timeout = 0s}), std::invalid_argument);
  EXPECT_THROW(gyre::http::client(loop, {.max_lifetime = -1s}), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(gyre::tls::tls_context::client({.handshake_timeout = -1s})),
               std::invalid_argument);
  gyre::tls::server_options secure = gyre::tls::test::serving();
  secure.ticket_lifetime = -1s;
  EXPECT_THROW(static_cast<void>(gyre::tls::tls_context::server(secure)), std::invalid_argument);
  secure = gyre::tls::test::serving();
  secure.handshake_timeout = -1s;
  EXPECT_THROW(static_cast<void>(gyre::tls::tls_context::server(secure)), std::invalid_argument);
}

TEST(FractionsOfAUnit, AreRoundedUpWhereTheNetworkCountsWholeUnits) {
  const gyre::net::socket socket =
      gyre::net::socket::open(gyre::net::address_family::ipv4, gyre::net::socket_type::stream);
  socket.set_linger(1ms);
  EXPECT_EQ(socket.linger(), 1s) << "zero would reset the connection";
  socket.set_user_timeout(1us);
  EXPECT_EQ(socket.user_timeout(), 1ms) << "zero would be the system's default";
  EXPECT_THAT(gyre::http::set_cookie("a", "b").max_age(1500ms).to_string(),
              HasSubstr("; Max-Age=2"));
}

}  // namespace
}  // namespace http_longest_durations_test

// SPDX-License-Identifier: Apache-2.0
// Tests of servers, listeners and clients that get their endpoint as a text.
#include <gyre/net/connect.hpp>
#include <gyre/net/host_port.hpp>
#include <gyre/net/tcp_client.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/net/udp_server.hpp>
#include <gyre/net/udp_socket.hpp>
#include <gyre/net/unix_stream.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/net/resolver.hpp>
#include <gyre/runtime/loop_pool.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/when_all.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <array>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace text_endpoints_test {
namespace {

using namespace gyre::net::test;
using gyre::net::endpoint;
using gyre::net::host_port;
using gyre::net::ip_address;
using gyre::net::resolve_errc;
using gyre::net::tcp_client;
using gyre::net::tcp_connection;
using gyre::net::tcp_server;

std::string with_port(std::string_view host, const endpoint& at) {
  return std::string(host) + ':' + std::to_string(at.port());
}

// No name server is asked for it: a label has at most 63 bytes.
const std::string impossible_name = std::string(64, 'a') + ".test:80";

template <class To>
std::error_code error_of_connecting(gyre::loop& loop, const To& to) {
  auto connecting = gyre::net::connect(to);
  auto made = gyre::sync_wait(loop, gyre::as_expected(std::move(connecting)));
  return made ? std::error_code() : made.error();
}

TEST(TextEndpoints, ServersListenWhereTheyAreMade) {
  gyre::loop loop;
  tcp_server server(loop, "127.0.0.1:0", {.name = "text"});
  EXPECT_EQ(server.name(), "text");
  EXPECT_EQ(server.local_endpoint().address(), ip_address::loopback_v4());
  EXPECT_NE(server.local_endpoint().port(), 0);
  server.listen("localhost:0");
  EXPECT_EQ(server.local_endpoint(1).address(), ip_address::loopback_v4());
  EXPECT_THROW(tcp_server(loop, "example.org:80"), std::system_error);

  gyre::loop_thread thread;
  const tcp_server on_thread(thread, "127.0.0.1:0");
  gyre::loop_pool pool(2);
  const tcp_server on_pool(pool, any_port(), {.strategy = gyre::net::accept_strategy::every_loop});
  EXPECT_NE(on_pool.local_endpoint().port(), 0);
  const gyre::net::udp_server datagrams(pool, std::string("127.0.0.1:0"));
  EXPECT_NE(datagrams.local_endpoint().port(), 0);
  const gyre::net::udp_server one(loop, "127.0.0.1:0");
  const gyre::net::udp_server threads_one(thread, "127.0.0.1:0", {.batch = 4});
  static_assert(!std::is_constructible_v<tcp_server, gyre::event_loop&, int>);
}

TEST(TextEndpoints, AServerAtAllAddressesServesBothVersions) {
  gyre::loop loop;
  tcp_server server(loop, ":0");
  std::vector<ip_address> peers;
  server.on_connection(
      [&](tcp_connection& peer) { peers.push_back(peer.peer_endpoint().address().unmapped()); });
  server.start();
  EXPECT_EQ(error_of_connecting(loop, with_port("127.0.0.1", server.local_endpoint())),
            std::error_code());
  turn_until(loop, [&] { return peers.size() == 1; });
  EXPECT_EQ(peers[0], ip_address::loopback_v4());
  if (server.local_endpoint().address().is_v4()) GTEST_SKIP() << "no IPv6 here";
  const std::error_code v6 = error_of_connecting(loop, with_port("[::1]", server.local_endpoint()));
  if (v6 == std::errc::address_not_available) GTEST_SKIP() << "no IPv6 loopback address here";
  EXPECT_EQ(v6, std::error_code());
  turn_until(loop, [&] { return peers.size() == 2; });
  EXPECT_EQ(peers[1], ip_address::loopback_v6());
}

TEST(TextEndpoints, CoroutinesConnectToLocalhostOnEitherVersion) {
  gyre::loop loop;
  gyre::net::tcp_listener listener(loop, "127.0.0.1:0");
  const endpoint at = listener.local_endpoint();
  for (const std::string& text : {with_port("localhost", at), with_port("", at),
                                  with_port("127.0.0.1", at), with_port("x.localhost", at)}) {
    EXPECT_EQ(error_of_connecting(loop, text), std::error_code()) << text;
  }
  EXPECT_EQ(error_of_connecting(loop, host_port(at)), std::error_code());
  EXPECT_EQ(error_of_connecting(loop, at), std::error_code());
  const std::string to = with_port("localhost", at);
  EXPECT_EQ(error_of_connecting(loop, std::string_view(to)), std::error_code());
  EXPECT_EQ(error_of_connecting(loop, to.c_str()), std::error_code());
}

TEST(TextEndpoints, MalformedTextFailsTheAwaitNotTheCall) {
  gyre::loop loop;
  EXPECT_EQ(error_of_connecting(loop, "localhost"), std::errc::invalid_argument);
  EXPECT_EQ(error_of_connecting(loop, "localhost:no-such-service-here"),
            resolve_errc::service_not_found);
  EXPECT_EQ(error_of_connecting(loop, "unix:/run/some.sock"), std::errc::invalid_argument);
  EXPECT_EQ(error_of_connecting(loop, impossible_name), resolve_errc::bad_name);
}

TEST(TextEndpoints, ConnectTakesTheResolverThatItIsGiven) {
  gyre::loop loop;
  gyre::net::resolver names(loop);
  gyre::net::tcp_listener listener(loop, "127.0.0.1:0");
  const auto error_with = [&](const auto& to) {
    auto connecting = gyre::net::connect(names, to);
    auto made = gyre::sync_wait(loop, gyre::as_expected(std::move(connecting)));
    return made ? std::error_code() : made.error();
  };
  EXPECT_EQ(error_with(with_port("localhost", listener.local_endpoint())), std::error_code());
  EXPECT_EQ(error_with(listener.local_endpoint().to_string()), std::error_code());
  EXPECT_EQ(error_with(host_port(listener.local_endpoint())), std::error_code());
  EXPECT_EQ(error_with(impossible_name), resolve_errc::bad_name);
  EXPECT_EQ(error_with("nonsense"), std::errc::invalid_argument);
}

TEST(TextEndpoints, AStopEndsConnectingByText) {
  gyre::loop loop;
  gyre::inplace_stop_source source;
  source.request_stop();
  auto connecting = gyre::net::connect("localhost:1");
  EXPECT_THROW(gyre::sync_wait(loop, std::move(connecting), source.get_token()), std::system_error);
}

class ClientByText : public testing::Test {
 protected:
  ClientByText() : server_(loop_, "127.0.0.1:0") { server_.start(); }
  std::string server_by(std::string_view host) const {
    return with_port(host, server_.local_endpoint());
  }
  // Connects, and returns the error of the attempt, or none.
  template <class Connect>
  std::error_code outcome(tcp_client& client, const Connect& connect) {
    std::optional<std::error_code> ended;
    client.on_connection([&](tcp_connection&) { ended = std::error_code(); });
    client.on_connect_failed([&](std::error_code why, std::size_t, bool) { ended = why; });
    connect();
    turn_until(loop_, [&] { return ended.has_value(); });
    return *ended;
  }

  gyre::loop loop_;
  tcp_server server_;
};

TEST_F(ClientByText, ConnectsToTheServerThatItWasMadeFor) {
  for (const std::string_view host : {"localhost", "127.0.0.1", ""}) {
    tcp_client client(loop_, server_by(host), {.name = "text"});
    EXPECT_EQ(client.name(), "text");
    EXPECT_EQ(outcome(client, [&] { client.connect(); }), std::error_code()) << host;
    EXPECT_EQ(client.connection()->peer_endpoint(), server_.local_endpoint());
  }
  tcp_client by_endpoint(loop_, server_.local_endpoint());
  EXPECT_EQ(outcome(by_endpoint, [&] { by_endpoint.connect(); }), std::error_code());
}

TEST_F(ClientByText, ConnectsToTextAtAnyTime) {
  tcp_client client(loop_);
  EXPECT_THROW(client.connect(), std::logic_error);
  EXPECT_THROW(client.connect("nonsense"), std::system_error);
  EXPECT_EQ(outcome(client, [&] { client.connect(server_by("localhost")); }), std::error_code());
  gyre::net::resolver names(loop_);
  tcp_client other(loop_);
  const auto connect_by = [&] { other.connect(names, server_by("localhost")); };
  EXPECT_EQ(outcome(other, connect_by), std::error_code());
}

TEST_F(ClientByText, ReportsANameThatCannotBeResolved) {
  tcp_client client(loop_, impossible_name);
  EXPECT_EQ(outcome(client, [&] { client.connect(); }), resolve_errc::bad_name);
  EXPECT_THROW(tcp_client(loop_, "nonsense"), std::system_error);
}

TEST_F(ClientByText, IsDestroyedWhileItLooksAName) {
  for (const bool from_loop : {true, false}) {
    std::optional<tcp_client> client(std::in_place, loop_, server_by("localhost"));
    client->connect();
    if (from_loop) {
      loop_.post([&] { client.reset(); });
      turn_until(loop_, [&] { return !client.has_value(); });
    } else {
      client.reset();
    }
    settle(loop_);
  }
}

TEST_F(ClientByText, ResolvesOnItsLoopThoughAnotherThreadConnectsAndDestroysIt) {
  gyre::loop_thread thread;
  tcp_server server(thread, "127.0.0.1:0");
  server.start();
  for (int i = 0; i < 20; ++i) {
    tcp_client client(thread, with_port("localhost", server.local_endpoint()));
    client.connect();
  }
}

TEST(TextEndpoints, UnixSocketsHaveTextsToo) {
  gyre::loop loop;
  const std::string at = "unix:@gyre-text-endpoints-" + std::to_string(::getpid());
  gyre::net::unix_listener listener(loop, at);
  const auto accept = [&]() -> gyre::task<> {
    auto accepting = listener.accept();
    const gyre::net::unix_stream peer = co_await std::move(accepting);
  };
  const auto connect = [&]() -> gyre::task<> {
    auto connecting = gyre::net::connect_unix(at);
    const gyre::net::unix_stream peer = co_await std::move(connecting);
  };
  auto both = gyre::when_all(accept(), connect());
  gyre::sync_wait(loop, std::move(both));
  tcp_server server(loop, at + "-server");
  server.start();
  bool up = false;
  tcp_client client(loop, at + "-server");
  client.on_connection([&](tcp_connection&) { up = true; });
  client.connect();
  turn_until(loop, [&] { return up; });
}

TEST(TextEndpoints, DatagramsGoToText) {
  gyre::loop loop;
  gyre::net::udp_socket receiver(loop, "127.0.0.1:0");
  gyre::net::udp_socket sender(loop, "localhost:0");
  const auto exchange = [&]() -> gyre::task<std::size_t> {
    co_await sender.send_to("hello", receiver.local_endpoint().to_string());
    std::array<std::byte, 16> room;
    const auto got = co_await receiver.receive_from(room);
    co_return got.size;
  };
  EXPECT_EQ(gyre::sync_wait(loop, exchange()), 5u);
}

}  // namespace
}  // namespace text_endpoints_test

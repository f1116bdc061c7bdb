// SPDX-License-Identifier: Apache-2.0
// The examples in the comments of net's headers about addresses, names and datagrams.
#include <gyre/gyre.hpp>
#include <gyre/testing/fake_dns_server.hpp>
#include <tests/header_examples/support.hpp>

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace names_test {
namespace {

using namespace std::chrono_literals;
using gyre::testing::fake_dns_server;
using header_examples::any_port;
using header_examples::seen_enough;

const gyre::net::ip_address loopback = gyre::net::ip_address::loopback_v4();

gyre::net::resolver_options only(const fake_dns_server& dns) {
  return {.servers = {dns.local_endpoint()}, .order = gyre::net::lookup_order::dns_only};
}

// gyre/net/ip_network.hpp
TEST(NamesExamples, IpNetworkContainsAddresses) {
  const gyre::net::endpoint peer(gyre::net::ip_address("192.0.2.7"), 80);
  const gyre::net::ip_network office = "192.0.2.0/24";
  if (office.contains(peer.address())) return;
  FAIL();
}

// gyre/net/address.hpp
TEST(NetExamples, AddressIsRead) {
  gyre::net::ip_address peer("2001:db8::7");
  if (peer.is_loopback()) FAIL();
  EXPECT_EQ(peer.to_string(), "2001:db8::7");
}

// gyre/net/connect.hpp
gyre::task<> connect_directly(gyre::net::endpoint server) {
  auto direct = co_await gyre::net::connect(server);  // an endpoint
  EXPECT_TRUE(direct.is_open());
}

gyre::task<> connect_to_text(std::string text) {
  auto typed = co_await gyre::net::connect(text);  // such as "localhost:7000"
  EXPECT_TRUE(typed.is_open());
}

gyre::task<> connect_by_name(gyre::net::resolver& resolver) {
  auto named = co_await gyre::net::connect(resolver, "example.org", "https");
  EXPECT_TRUE(named.is_open());
}

TEST(NetExamples, ConnectTakesAnEndpointOrAName) {
  gyre::loop loop;
  const gyre::net::socket listening = gyre::net::listening_socket(any_port());
  gyre::sync_wait(loop, connect_directly(listening.local_endpoint()));
  gyre::sync_wait(loop, connect_to_text(listening.local_endpoint().to_string()));
  fake_dns_server dns(loop);
  dns["example.org"].addresses = {loopback};
  gyre::net::resolver resolver(loop, only(dns));
  auto connected = gyre::sync_wait(loop, gyre::as_expected(connect_by_name(resolver)));
  if (!connected) {  // mostly no server listens on the port
    EXPECT_EQ(connected.error(), std::errc::connection_refused);
  }
  EXPECT_FALSE(dns.questions().empty());
}

// gyre/net/datagram_batch.hpp
gyre::task<> handle_for_ever(gyre::net::udp_socket& socket) {
  const auto handle = [](std::span<const std::byte> bytes, const gyre::net::endpoint&) {
    EXPECT_EQ(bytes.size(), 5U);
    throw seen_enough();
  };
  gyre::net::datagram_batch batch(64, 1500);
  for (;;) {
    co_await socket.receive_batch(batch);
    for (const gyre::net::datagram each : batch) handle(each.bytes, each.peer);
  }
}

TEST(NetExamples, DatagramBatchIsReceived) {
  gyre::loop loop;
  gyre::net::udp_socket socket(loop, any_port());
  gyre::net::udp_client sender(socket.local_endpoint());
  sender.send("hello");
  EXPECT_THROW(gyre::sync_wait(loop, handle_for_ever(socket)), seen_enough);
}

// gyre/net/resolver.hpp, srv_record
gyre::task<int> connect_to_services(gyre::net::resolver& names) {
  int connected = 0;
  const auto use = [&](gyre::net::tcp_stream peer) { connected += peer.is_open() ? 1 : 0; };
  for (const auto& each : co_await names.resolve_srv("_xmpp-client._tcp.example.org")) {
    auto peer = co_await gyre::as_expected(gyre::net::connect(names, each.target, each.port));
    if (!peer) continue;  // the next server
    use(std::move(*peer));
    break;
  }
  co_return connected;
}

TEST(NetExamples, ServiceRecordsNameServers) {
  gyre::loop loop;
  const gyre::net::socket refusing =
      gyre::net::socket::open(any_port().family(), gyre::net::socket_type::stream);
  refusing.bind(any_port());
  const gyre::net::socket listening = gyre::net::listening_socket(any_port());
  const gyre::net::socket spare = gyre::net::listening_socket(any_port());
  fake_dns_server dns(loop);
  dns["_xmpp-client._tcp.example.org"].records = {
      fake_dns_server::srv(1, 1, refusing.local_endpoint().port(), "xmpp.example.org"),
      fake_dns_server::srv(2, 1, listening.local_endpoint().port(), "xmpp.example.org"),
      fake_dns_server::srv(3, 1, spare.local_endpoint().port(), "xmpp.example.org")};
  dns["xmpp.example.org"].addresses = {loopback};
  gyre::net::resolver names(loop, only(dns));
  EXPECT_EQ(gyre::sync_wait(loop, connect_to_services(names)), 1);
}

// gyre/net/endpoint.hpp
TEST(NetExamples, EndpointIsMadeOrRead) {
  const std::array<const char*, 2> argv{"program", "[::1]:80"};
  gyre::net::endpoint web = "192.0.2.1:80";
  gyre::net::endpoint secure(gyre::net::ip_address::any_v6(), 443);
  auto control = gyre::net::endpoint::unix_path("/run/service.sock");
  auto given = gyre::net::endpoint::parse(argv[1]);
  EXPECT_EQ(web.port(), 80);
  EXPECT_EQ(secure.port(), 443);
  EXPECT_EQ(control.family(), gyre::net::address_family::local);
  EXPECT_EQ(given.value().to_string(), "[::1]:80");
}

// gyre/net/host_port.hpp
gyre::task<std::vector<gyre::net::endpoint>> addresses_of_server(gyre::net::resolver& names) {
  std::vector<gyre::net::endpoint> addresses;
  gyre::net::host_port server = "example.org:https";
  if (server.is_name()) addresses = co_await names.resolve(server.host(), server.port());
  co_return addresses;
}

TEST(NetExamples, HostPortIsAnEndpointOrAName) {
  gyre::loop loop;
  fake_dns_server dns(loop);
  dns["example.org"].addresses = {loopback};
  gyre::net::resolver names(loop, only(dns));
  const auto found = gyre::sync_wait(loop, addresses_of_server(names));
  EXPECT_EQ(found.at(0), gyre::net::endpoint(loopback, 443));
}

// gyre/net/service.hpp
TEST(NetExamples, ServiceHasAPort) {
  gyre::net::service secure = "https";
  EXPECT_EQ(secure.port(), 443);
}

// gyre/net/resolver.hpp
gyre::task<std::size_t> resolve_here(gyre::net::resolver& names) {
  auto found = co_await names.resolve("example.org", "https");  // in a coroutine, or
  co_return found.size();
}

TEST(NetExamples, ResolverIsMadeOnALoop) {
  gyre::loop loop;
  gyre::net::resolver names(loop);
}

TEST(NetExamples, ResolverFindsAddresses) {
  gyre::loop loop;
  fake_dns_server dns(loop);
  dns["example.org"].addresses = {loopback};
  gyre::net::resolver names(loop, only(dns));
  EXPECT_EQ(gyre::sync_wait(loop, resolve_here(names)), 1U);
  const auto expect = [&](bool success) {
    EXPECT_TRUE(success);
    loop.stop();
  };
  auto pending = names.resolve("example.org", 443, [&](auto found) { expect(found.has_value()); });
  loop.run();
}

// gyre/testing/fake_dns_server.hpp
TEST(TestingExamples, AFakeServerAnswersAsTheTestSays) {
  gyre::loop loop;
  gyre::testing::fake_dns_server dns(loop);
  dns["www.example.org"] = {.addresses = {gyre::net::ip_address::loopback_v4()}};
  dns["broken.example.org"] = {.reply = gyre::testing::fake_dns_server::reply_kind::none};
  gyre::net::resolver resolver(loop, {.servers = {dns.local_endpoint()}});
  std::size_t count = 0;
  auto pending = resolver.resolve("www.example.org", 80, [&](const auto& found) {
    count = found.value().size();
    loop.stop();
  });
  loop.run();
  EXPECT_EQ(count, 1U);
}

// gyre/net/socket_options.hpp
TEST(NetExamples, SocketOptionsAreSet) {
  gyre::net::socket connection =
      gyre::net::socket::open(gyre::net::address_family::ipv4, gyre::net::socket_type::stream);
  const gyre::net::endpoint at(gyre::net::ip_address::loopback_v4(), 0);
  gyre::net::socket_ref(connection.fd()).set_no_delay(true);
  auto opened = gyre::net::socket::open(at.family(), gyre::net::socket_type::stream);
  opened.apply({.reuse_port = true, .receive_buffer = 1 << 20});  // before bind()
  EXPECT_TRUE(connection.no_delay());
  EXPECT_TRUE(opened.reuse_port());
}

// gyre/net/udp_client.hpp
std::string ask_for_time(const gyre::net::endpoint& server) {
  const auto time_limit = 1min;
  gyre::net::udp_client client(server);
  std::optional<gyre::io::buffer> answer = client.ask("time?", time_limit);
  return std::string(answer.value().text());
}

// gyre/net/udp_server.hpp
TEST(NetExamples, UdpServerAnswersAClient) {
  gyre::loop_thread thread;
  gyre::loop& loop = thread.loop();
  const gyre::net::endpoint at = any_port();
  // clang-format off
  gyre::net::udp_server server(loop, at);  // such as ":7000"
  server.on_datagram([](gyre::net::udp_server::channel& socket, std::span<const std::byte> bytes,
                        const gyre::net::endpoint& peer) { socket.send_to(bytes, peer); });
  server.start();
  // clang-format on
  EXPECT_EQ(ask_for_time(server.local_endpoint()), "time?");
}

// gyre/net/udp_socket.hpp
gyre::task<> echo_for_ever(gyre::loop& loop, header_examples::bound_already& at) {
  gyre::net::udp_socket socket(loop, at);  // such as ":7000"
  std::array<std::byte, 1500> room;
  for (;;) {
    auto got = co_await socket.receive_from(room);
    co_await socket.send_to(std::span(room).first(got.size), got.peer);
  }
}

gyre::task<std::size_t> ask_echo(gyre::loop& loop, gyre::net::endpoint server) {
  gyre::net::udp_socket socket(loop, any_port());
  co_await socket.send_to("hello", server);
  std::array<std::byte, 16> room;
  auto got = co_await socket.receive_from(room);
  co_return got.size;
}

TEST(NetExamples, UdpSocketEchoes) {
  gyre::loop loop;
  header_examples::bound_already at;
  const gyre::net::endpoint where = at.where();
  auto first =
      gyre::sync_wait(loop, gyre::when_any(echo_for_ever(loop, at), ask_echo(loop, where)));
  EXPECT_EQ(std::get<1>(first.values), 5U);
}

}  // namespace
}  // namespace names_test

// SPDX-License-Identifier: Apache-2.0
// Tests that answering a message, by TCP or UDP, allocates nothing: every allocation of this
// program is counted.
#include <gyre/net/callback_test_support.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/net/udp_server.hpp>
#include <gyre/testing/allocations.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>

namespace echo_allocation_test {
namespace {

using gyre::testing::allocations;
using namespace gyre::net::test;
using gyre::net::endpoint;

// Lets `client` send and receive `count` messages; returns the number of allocations.
std::size_t allocations_of(gyre::loop& loop, int client, int count) {
  const std::size_t before = allocations();
  for (int i = 0; i < count; ++i) {
    std::array<char, 1024> message{};
    EXPECT_EQ(::send(client, message.data(), message.size(), MSG_NOSIGNAL), 1024);
    turn_until(loop, [&] { return ::recv(client, message.data(), message.size(), 0) == 1024; });
  }
  return allocations() - before;
}

TEST(EchoAllocation, TcpMessagesAllocateNothing) {
  gyre::loop loop;
  gyre::net::tcp_server server(loop);
  server.on_message([](gyre::net::tcp_connection& from, gyre::io::input& in) {
    from.send(in.bytes());
    in.consume_all();
  });
  server.listen(any_port());
  server.start();
  const peer client(server.local_endpoint());
  allocations_of(loop, client.fd(), 3);
  EXPECT_EQ(allocations_of(loop, client.fd(), 1000), 0u);
}

TEST(EchoAllocation, DatagramsAllocateNothing) {
  gyre::loop loop;
  gyre::net::udp_server server(loop);
  server.on_datagram([](gyre::net::udp_server::channel& by, std::span<const std::byte> bytes,
                        const endpoint& from) { by.send_to(bytes, from); });
  server.listen(any_port());
  server.start();
  const gyre::net::socket client =
      gyre::net::socket::open(gyre::net::address_family::ipv4, gyre::net::socket_type::datagram);
  static_cast<void>(client.connect(server.local_endpoint()));
  allocations_of(loop, client.fd(), 3);
  EXPECT_EQ(allocations_of(loop, client.fd(), 1000), 0u);
}

}  // namespace
}  // namespace echo_allocation_test

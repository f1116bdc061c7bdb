// SPDX-License-Identifier: Apache-2.0
// Tests of the sessions that a client's transport offers, with filters alone.
#include <gyre/tls/transport.hpp>

#include <gyre/tls/tls_test_support.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace transport_session_test {
namespace {

using namespace gyre::tls::test;
using gyre::io::buffer;
using gyre::net::transport;
using gyre::net::transport_filter;
using gyre::tls::tls_context;
using filter_ptr = std::unique_ptr<transport_filter>;

/// The first message of a connection, which is longer if it offers a session.
std::size_t hello_size(transport_filter& client, buffer& to_server) {
  EXPECT_FALSE(client.shake_hands({}, to_server));
  return to_server.size();
}

/// A connection that is cut off after the server's first byte, with which tickets come: the client
/// keeps its session. Gives the size of its hello.
std::size_t visit(const transport& asks, const transport& serves) {
  const filter_ptr client = asks.make_filter("localhost");
  const filter_ptr server = serves.make_filter("");
  buffer to_server;
  buffer to_client;
  const std::size_t size = hello_size(*client, to_server);
  EXPECT_FALSE(server->shake_hands({}, to_client));
  for (int turn = 0; turn < 8 && !(client->is_established() && server->is_established()); ++turn) {
    EXPECT_FALSE(server->shake_hands(to_server.bytes(), to_client));
    to_server.consume_all();
    EXPECT_FALSE(client->shake_hands(to_client.bytes(), to_server));
    to_client.consume_all();
  }
  EXPECT_FALSE(server->seal(std::as_bytes(std::span("x", 1)), to_client));
  buffer plain;
  EXPECT_FALSE(client->open(to_client.bytes(), plain, to_server));
  return size;
}

TEST(TlsTransportSession, OneWhoseResumptionFailedIsNotOfferedAgain) {
  const auto asks = gyre::tls::client_transport(tls_context::client(trusting()));
  const auto serves = gyre::tls::server_transport(tls_context::server(serving()));
  const std::size_t without = visit(*asks, *serves);
  {
    const filter_ptr failing = asks->make_filter("localhost");
    buffer to_server;
    EXPECT_GT(hello_size(*failing, to_server), without);
    EXPECT_TRUE(failing->shake_hands(std::as_bytes(std::span("no server of TLS")), to_server));
  }
  EXPECT_EQ(visit(*asks, *serves), without);
  EXPECT_GT(visit(*asks, *serves), without);
}

TEST(TlsTransportSession, ConnectionsAtTheSameTimeOfferOneSessionOnce) {
  const auto asks = gyre::tls::client_transport(tls_context::client(trusting()));
  const auto serves = gyre::tls::server_transport(tls_context::server(serving()));
  const std::size_t without = visit(*asks, *serves);
  const filter_ptr first = asks->make_filter("localhost");
  const filter_ptr second = asks->make_filter("localhost");
  buffer to_server;
  EXPECT_GT(hello_size(*first, to_server), without);
  to_server.consume_all();
  EXPECT_EQ(hello_size(*second, to_server), without);
}

}  // namespace
}  // namespace transport_session_test

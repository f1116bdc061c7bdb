// SPDX-License-Identifier: Apache-2.0
// Tests of the sessions that a client's transport offers, with layers alone.
#include <gyre/tls/transport.hpp>

#include <gyre/tls/tls_test_support.hpp>
#include <tests/support/layer_steps.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace transport_session_test {
namespace {

using namespace gyre::tls::test;
using gyre::io::buffer;
using gyre::net::layer;
using gyre::net::transport;
using gyre::test::read_all;
using gyre::test::shake_hands;
using gyre::test::write;
using gyre::tls::tls_context;
using layer_ptr = std::unique_ptr<layer>;

/// The first message of a connection, which is longer if it offers a session.
std::size_t hello_size(layer& client, buffer& to_server) {
  EXPECT_FALSE(shake_hands(client, {}, to_server));
  return to_server.size();
}

/// A connection that is cut off after the server's first byte, with which tickets come: the client
/// keeps its session. Gives the size of its hello.
std::size_t visit(const transport& asks, const transport& serves) {
  const layer_ptr client = asks.make_layer("localhost");
  const layer_ptr server = serves.make_layer("");
  buffer to_server;
  buffer to_client;
  const std::size_t size = hello_size(*client, to_server);
  EXPECT_FALSE(shake_hands(*server, {}, to_client));
  for (int turn = 0; turn < 8 && !(client->is_established() && server->is_established()); ++turn) {
    EXPECT_FALSE(shake_hands(*server, to_server.bytes(), to_client));
    to_server.consume_all();
    EXPECT_FALSE(shake_hands(*client, to_client.bytes(), to_server));
    to_client.consume_all();
  }
  EXPECT_FALSE(write(*server, std::as_bytes(std::span("x", 1)), to_client));
  buffer plain;
  EXPECT_FALSE(read_all(*client, to_client.bytes(), plain, to_server));
  return size;
}

TEST(TlsTransportSession, OneWhoseResumptionFailedIsNotOfferedAgain) {
  const auto asks = gyre::tls::client_transport(tls_context::client(trusting()));
  const auto serves = gyre::tls::server_transport(tls_context::server(serving()));
  const std::size_t without = visit(*asks, *serves);
  {
    const layer_ptr failing = asks->make_layer("localhost");
    buffer to_server;
    EXPECT_GT(hello_size(*failing, to_server), without);
    EXPECT_TRUE(shake_hands(*failing, std::as_bytes(std::span("no server of TLS")), to_server));
  }
  EXPECT_EQ(visit(*asks, *serves), without);
  EXPECT_GT(visit(*asks, *serves), without);
}

TEST(TlsTransportSession, ConnectionsAtTheSameTimeOfferOneSessionOnce) {
  const auto asks = gyre::tls::client_transport(tls_context::client(trusting()));
  const auto serves = gyre::tls::server_transport(tls_context::server(serving()));
  const std::size_t without = visit(*asks, *serves);
  const layer_ptr first = asks->make_layer("localhost");
  const layer_ptr second = asks->make_layer("localhost");
  buffer to_server;
  EXPECT_GT(hello_size(*first, to_server), without);
  to_server.consume_all();
  EXPECT_EQ(hello_size(*second, to_server), without);
}

}  // namespace
}  // namespace transport_session_test

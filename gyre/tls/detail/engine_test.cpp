// SPDX-License-Identifier: Apache-2.0
// Tests of an engine without sockets: messages that come behind the handshake.
#include <gyre/tls/detail/engine.hpp>

#include <gyre/tls/error.hpp>
#include <gyre/tls/tls_test_support.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <system_error>

namespace engine_test {
namespace {

using namespace gyre::tls::test;
using gyre::tls::errc;
using gyre::tls::session;
using gyre::tls::tls_context;
using gyre::tls::detail::engine;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// Two engines whose handshake is done, and what they send.
struct engines {
  explicit engines(const tls_context& serves = tls_context::server(serving()),
                   const tls_context& asks = tls_context::client(trusting()))
      : server(serves, "", session(), to_client), client(asks, "localhost", session(), to_server) {
    // TLS 1.3: two messages of the client, one of the server.
    EXPECT_EQ(client.handshake(), engine::status::wants_input);
    server.feed(to_server.bytes());
    EXPECT_EQ(server.handshake(), engine::status::wants_input);
    to_server.consume_all();
    client.feed(to_client.bytes());
    EXPECT_EQ(client.handshake(), engine::status::done);
    to_client.consume_all();
    server.feed(to_server.bytes());
    EXPECT_EQ(server.handshake(), engine::status::done);
    to_server.consume_all();
  }

  /// The client takes new keys, and tells the server.
  void update_keys(int times) {
    for (int i = 0; i < times; ++i) {
      ASSERT_EQ(SSL_key_update(client.native(), SSL_KEY_UPDATE_NOT_REQUESTED), 1);
      ASSERT_EQ(SSL_do_handshake(client.native()), 1);
    }
  }
  /// Lets the server read all; gives the count of bytes.
  std::size_t read_all(engine::status& last) {
    server.feed(to_server.bytes());
    std::size_t all = 0;
    do {
      std::array<std::byte, 256> room;
      std::size_t count = 0;
      last = server.read(room, count);
      all += count;
    } while (last == engine::status::done);
    return all;
  }

  gyre::io::buffer to_server;
  gyre::io::buffer to_client;
  engine server;
  engine client;
};

TEST(TlsEngine, RefusesKeyUpdatesWithoutEnd) {
  engines both;
  both.update_keys(1000);
  engine::status last{};
  EXPECT_EQ(both.read_all(last), 0u);
  EXPECT_EQ(last, engine::status::failed);
  EXPECT_EQ(both.server.why().code, errc::bad_record);
}

TEST(TlsEngine, TakesManyKeyUpdatesWithDataBetweenThem) {
  engines both;
  for (int i = 0; i < 50; ++i) {
    both.update_keys(20);
    EXPECT_EQ(both.client.write(bytes_of("x")), engine::status::done);
  }
  engine::status last{};
  EXPECT_EQ(both.read_all(last), 50u);
  EXPECT_EQ(last, engine::status::wants_input) << both.server.why().code.message();
}

TEST(TlsEngine, ASessionIsResumedForAKnownNameOnly) {
  gyre::tls::server_options options = serving();
  options.refuse_unknown_names = true;
  const tls_context serves = tls_context::server(options);
  const tls_context asks = tls_context::client({.verify = false});
  engines first(serves, asks);
  first.client.feed(first.to_client.bytes());
  ASSERT_EQ(first.client.peek(), engine::status::wants_input);
  const session kept = first.client.newest_session();
  ASSERT_TRUE(kept);
  for (const bool is_known : {true, false}) {
    gyre::io::buffer to_server;
    gyre::io::buffer to_client;
    engine server(serves, "", session(), to_client);
    engine client(asks, is_known ? "localhost" : "unknown.test", kept, to_server);
    EXPECT_EQ(client.handshake(), engine::status::wants_input);
    server.feed(to_server.bytes());
    const engine::status now = server.handshake();
    EXPECT_EQ(now, is_known ? engine::status::wants_input : engine::status::failed);
    if (is_known) {
      EXPECT_EQ(SSL_session_reused(server.native()), 1);
    } else {
      EXPECT_EQ(server.why().code, errc::unknown_server_name);
    }
  }
}

TEST(TlsEngine, AHostIsOneName) {
  const tls_context client = tls_context::client(trusting());
  gyre::io::buffer output;
  for (const char* const host : {"", ".", ".example.org"}) {
    EXPECT_THROW(engine(client, host, session(), output), std::system_error) << host;
  }
}

}  // namespace
}  // namespace engine_test

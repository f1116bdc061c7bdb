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

/// Lets each side read what the other has sent, until the handshake of both is done.
void shake_hands(engine& client, engine& server, gyre::io::buffer& to_client,
                 gyre::io::buffer& to_server) {
  for (int turn = 0; turn < 8 && !(client.established() && server.established()); ++turn) {
    for (engine* const each : {&client, &server}) {
      gyre::io::buffer& received = each == &client ? to_client : to_server;
      each->feed(received.bytes());
      ASSERT_NE(each->handshake(), engine::status::failed) << each->why().text;
      received.consume(received.size() - each->unread().size());
    }
  }
}

TEST(TlsEngine, ASessionOfTls12IsResumedAgainAndAgain) {
  const tls_context serves = tls_context::server(serving());
  auto options = trusting();
  options.max_version = gyre::tls::version::tls_1_2;
  const tls_context asks = tls_context::client(options);
  session kept;
  for (int visit = 0; visit < 3; ++visit) {
    gyre::io::buffer to_server;
    gyre::io::buffer to_client;
    engine server(serves, "", session(), to_client);
    engine client(asks, "localhost", kept, to_server);
    shake_hands(client, server, to_client, to_server);
    EXPECT_EQ(SSL_session_reused(client.native()), visit > 0 ? 1 : 0);
    kept = client.newest_session();
    EXPECT_TRUE(kept);
  }
}

// To keep the data and report success would lose them if the rest never comes.
TEST(TlsEngine, AWriteWithinAMessageOfThePeerFails) {
  gyre::io::buffer to_server;
  gyre::io::buffer to_client;
  engine server(tls_context::server(requiring_certificates()), "", session(), to_client);
  engine client(tls_context::client(showing_certificate()), "localhost", session(), to_server);
  // A ticket, which has the client's certificate, takes several records.
  ASSERT_EQ(SSL_set_max_send_fragment(server.native(), 512), 1);
  shake_hands(client, server, to_client, to_server);
  ASSERT_GT(to_client.size(), 600u);
  client.feed(to_client.bytes().first(600));
  EXPECT_EQ(client.peek(), engine::status::wants_input);
  EXPECT_FALSE(client.may_write());
  EXPECT_EQ(client.write(bytes_of("x")), engine::status::failed);
  EXPECT_EQ(client.why().code, errc::bad_record);
}

TEST(TlsEngine, ASessionIsNotResumedBeyondItsCertificate) {
  const tls_context serves = tls_context::server(serving({.valid_from = -7200, .valid_to = -3600}));
  for (const auto version : {gyre::tls::version::tls_1_2, gyre::tls::version::tls_1_3}) {
    auto options = trusting();
    options.max_version = version;
    options.verify = false;
    gyre::io::buffer to_server;
    gyre::io::buffer to_client;
    engine server(serves, "", session(), to_client);
    engine careless(tls_context::client(options), "localhost", session(), to_server);
    shake_hands(careless, server, to_client, to_server);
    careless.feed(to_client.bytes());
    EXPECT_EQ(careless.peek(), engine::status::wants_input);
    // A loaded session does not know its context, so that any may offer it.
    const session kept = session::load(careless.newest_session().save());
    ASSERT_TRUE(kept);
    for (const bool verify : {false, true}) {
      options.verify = verify;
      const engine client(tls_context::client(options), "localhost", kept, to_server);
      EXPECT_EQ(SSL_get_session(client.native()) == nullptr, verify);
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

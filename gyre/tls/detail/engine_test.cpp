// SPDX-License-Identifier: Apache-2.0
// Tests of an engine without sockets: messages that come behind the handshake.
#include <gyre/tls/detail/engine.hpp>

#include <gyre/tls/error.hpp>
#include <gyre/tls/tls_test_support.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

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

// A few bytes between them do not make up for thousands of keys.
TEST(TlsEngine, RefusesKeyUpdatesWithoutEnd) {
  for (const std::string_view data : {"", "x"}) {
    engines both;
    engine::status last{};
    while (last != engine::status::failed) {
      both.update_keys(10);
      EXPECT_EQ(both.client.write(bytes_of(data)), engine::status::done);
      both.read_all(last);
      both.to_server.consume_all();
    }
    EXPECT_EQ(both.server.why().code, errc::bad_record);
  }
}

TEST(TlsEngine, TakesKeyUpdatesInProportionToData) {
  engines both;
  const std::string data(std::size_t{64} << 10, 'x');
  for (int i = 0; i < 200; ++i) {
    both.update_keys(1);
    EXPECT_EQ(both.client.write(bytes_of(data)), engine::status::done);
    engine::status last{};
    EXPECT_EQ(both.read_all(last), data.size());
    ASSERT_EQ(last, engine::status::wants_input) << both.server.why().code.message();
    both.to_server.consume_all();
  }
}

TEST(TlsEngine, ASessionIsResumedForAKnownNameOnly) {
  gyre::tls::server_options options = serving();
  options.refuse_unknown_names = true;
  const tls_context serves = tls_context::server(options);
  const tls_context asks = tls_context::client({.verify = false});
  engines first(serves, asks);
  ASSERT_EQ(first.server.write_tickets(), engine::status::done);
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
  for (int turn = 0; turn < 8 && !(client.is_established() && server.is_established()); ++turn) {
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
  EXPECT_EQ(client.handshake(), engine::status::wants_input);
  server.feed(to_server.bytes());
  EXPECT_EQ(server.handshake(), engine::status::wants_input);
  to_server.consume_all();
  // A ticket, which has the client's certificate, takes several records.
  ASSERT_EQ(SSL_set_max_send_fragment(server.native(), 512), 1);
  shake_hands(client, server, to_client, to_server);
  ASSERT_EQ(server.write_tickets(), engine::status::done);
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
    ASSERT_EQ(server.write_tickets(), engine::status::done);
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

// --- What a peer can make an engine compute and hold ---

TEST(TlsEngine, AgreesOnKeysInTheGroupsOfItsContextOnly) {
  const auto fails = [](const std::vector<std::string>& of_server,
                        const std::vector<std::string>& of_client) {
    gyre::tls::server_options serves = serving();
    if (!of_server.empty()) serves.groups = of_server;
    auto asks = trusting();
    if (!of_client.empty()) asks.groups = of_client;
    gyre::io::buffer to_server;
    gyre::io::buffer to_client;
    engine server(tls_context::server(serves), "", session(), to_client);
    engine client(tls_context::client(asks), "localhost", session(), to_server);
    EXPECT_EQ(client.handshake(), engine::status::wants_input);
    server.feed(to_server.bytes());
    return server.handshake() == engine::status::failed;
  };
  EXPECT_FALSE(fails({}, {}));
  for (const char* const usual : {"X25519", "P-256", "P-384"}) EXPECT_FALSE(fails({}, {usual}));
  for (const char* const slow : {"ffdhe2048", "P-521", "X448"}) {
    EXPECT_TRUE(fails({}, {slow})) << slow;
    EXPECT_FALSE(fails({slow}, {slow})) << slow;
  }
}

TEST(TlsEngine, AServerHoldsNothingForASilentPeer) {
  gyre::io::buffer to_server;
  gyre::io::buffer to_client;
  engine server(tls_context::server(serving()), "", session(), to_client);
  engine client(tls_context::client(trusting()), "localhost", session(), to_server);
  EXPECT_EQ(server.handshake(), engine::status::wants_input);
  EXPECT_EQ(client.handshake(), engine::status::wants_input);
  const std::span<const std::byte> hello = to_server.bytes();
  constexpr std::size_t opening = 9;
  for (std::size_t i = 0; i < opening; ++i) {
    EXPECT_EQ(server.native(), nullptr) << i;
    EXPECT_EQ(server.held_by_handshake(), 0u) << i;
    server.feed(hello.subspan(i, 1));
    EXPECT_EQ(server.handshake(), engine::status::wants_input);
  }
  EXPECT_NE(server.native(), nullptr);
  EXPECT_GT(server.held_by_handshake(), hello.size());
  server.feed(hello.subspan(opening));
  EXPECT_EQ(server.handshake(), engine::status::wants_input);
  EXPECT_FALSE(to_client.empty()) << "it has all of the message";
  to_server.consume_all();
  shake_hands(client, server, to_client, to_server);
  EXPECT_TRUE(server.is_established());
  EXPECT_EQ(server.held_by_handshake(), 0u);
}

// OpenSSL has room for the whole message as soon as its header has come.
TEST(TlsEngine, CountsTheMessageThatAClientAnnounces) {
  const tls_context serves = tls_context::server(serving());
  const auto held_after = [&](std::initializer_list<int> sent) {
    gyre::io::buffer bytes;
    for (const int each : sent) bytes.append(std::string(1, static_cast<char>(each)));
    gyre::io::buffer to_client;
    engine server(serves, "", session(), to_client);
    server.feed(bytes.bytes());
    EXPECT_EQ(server.handshake(), engine::status::wants_input);
    return server.held_by_handshake();
  };
  const std::size_t of_short_hello = held_after({22, 3, 1, 0, 200, 1, 0, 0, 196});
  const std::size_t of_long_hello = held_after({22, 3, 1, 64, 0, 1, 1, 255, 0});
  EXPECT_GE(of_long_hello, of_short_hello + 0x1f000);
  // The header is spread over two records.
  EXPECT_GE(held_after({22, 3, 1, 0, 1, 1, 22, 3, 1, 0, 3, 0, 0, 196}), of_long_hello);
}

TEST(TlsEngine, APeerThatSpeaksNoTlsGetsAnAlert) {
  const auto reply_to = [](engine& machine, std::string_view text) {
    gyre::io::buffer output;
    machine.send_to(output);
    machine.feed(bytes_of(text));
    EXPECT_EQ(machine.handshake(), engine::status::failed);
    EXPECT_EQ(machine.why().code, errc::not_tls) << machine.why().code.message();
    return std::string(output.text());
  };
  const std::string alert("\x15\x03\x01\x00\x02\x02\x0a", 7);
  gyre::io::buffer unused;
  for (const std::string_view greeting : {"EHLO mail\r\n", "\r\n\r\n\r\n"}) {
    engine server(tls_context::server(serving()), "", session(), unused);
    EXPECT_EQ(reply_to(server, greeting), alert);
  }
  engine client(tls_context::client(trusting()), "localhost", session(), unused);
  EXPECT_EQ(client.handshake(), engine::status::wants_input);
  EXPECT_EQ(reply_to(client, "220 mail.example ESMTP\r\n"), alert);
}

TEST(TlsEngine, RefusesLargerRsaKeysThanItsLimit) {
  const issued own = authority().issue({.rsa_bits = 2048});
  auto serves = requiring_certificates();
  serves.certificates = {in_memory(own)};
  auto asks = trusting();
  asks.own_certificate = in_memory(own);
  const auto failure = [&](std::size_t server_takes, std::size_t client_takes) {
    serves.max_rsa_bits = server_takes;
    asks.max_rsa_bits = client_takes;
    gyre::io::buffer to_server;
    gyre::io::buffer to_client;
    engine server(tls_context::server(serves), "", session(), to_client);
    engine client(tls_context::client(asks), "localhost", session(), to_server);
    EXPECT_EQ(client.handshake(), engine::status::wants_input);
    server.feed(to_server.bytes());
    EXPECT_EQ(server.handshake(), engine::status::wants_input);
    to_server.consume_all();
    client.feed(to_client.bytes());
    if (client.handshake() == engine::status::failed) return client.why();
    server.feed(to_server.bytes());
    static_cast<void>(server.handshake());
    return server.why();
  };
  EXPECT_FALSE(failure(2048, 2048).code);
  EXPECT_EQ(failure(2047, 2048).code, errc::certificate_refused);
  const gyre::tls::detail::failure of_client = failure(2048, 2047);
  EXPECT_EQ(of_client.code, errc::certificate_refused);
  EXPECT_EQ(of_client.text, "a key of 2048 bits is larger than max_rsa_bits, 2047");
}

// Either side may ask for another handshake in TLS 1.2, which costs the other one a key agreement.
TEST(TlsEngine, NeitherSideRenegotiates) {
  auto options = trusting();
  options.max_version = gyre::tls::version::tls_1_2;
  for (const bool client_asks : {true, false}) {
    gyre::io::buffer to_server;
    gyre::io::buffer to_client;
    engine server(tls_context::server(serving()), "", session(), to_client);
    engine client(tls_context::client(options), "localhost", session(), to_server);
    shake_hands(client, server, to_client, to_server);
    to_client.consume_all();
    SSL* const asking = (client_asks ? client : server).native();
    SSL_clear_options(asking, SSL_OP_NO_RENEGOTIATION);
    ASSERT_EQ(SSL_renegotiate(asking), 1);
    SSL_do_handshake(asking);
    engine& asked = client_asks ? server : client;
    gyre::io::buffer& request = client_asks ? to_server : to_client;
    gyre::io::buffer& reply = client_asks ? to_client : to_server;
    ASSERT_FALSE(request.empty());
    asked.feed(request.bytes());
    EXPECT_EQ(asked.peek(), engine::status::wants_input) << asked.why().text;
    constexpr std::size_t alert = 5 + 2 + 24;  // a record with an explicit nonce and a tag
    EXPECT_EQ(reply.size(), alert) << "a warning";
    EXPECT_EQ(asked.write(bytes_of("x")), engine::status::done) << "it goes on as before";
  }
}

// --- Names ---

// RFC 6066, 3: a session of TLS 1.2 belongs to the name that it was made for.
TEST(TlsEngine, ASessionOfTls12IsNotResumedUnderAnotherName) {
  const tls_context serves = tls_context::server(serving());
  for (const auto version : {gyre::tls::version::tls_1_2, gyre::tls::version::tls_1_3}) {
    const tls_context asks = tls_context::client({.verify = false, .max_version = version});
    const auto visit = [&](const std::string& host, session& kept) {
      gyre::io::buffer to_server;
      gyre::io::buffer to_client;
      engine server(serves, "", session(), to_client);
      engine client(asks, host, kept, to_server);
      shake_hands(client, server, to_client, to_server);
      EXPECT_EQ(server.write_tickets(), engine::status::done);
      client.feed(to_client.bytes());
      EXPECT_EQ(client.peek(), engine::status::wants_input);
      kept = client.newest_session();
      return SSL_session_reused(server.native()) == 1;
    };
    for (const char* const host : {"a.test", ""}) {
      session kept;
      EXPECT_FALSE(visit(host, kept));
      EXPECT_TRUE(visit(*host == 'a' ? "A.test" : "", kept));
      const bool is_resumed = version == gyre::tls::version::tls_1_3;
      EXPECT_EQ(visit("b.test", kept), is_resumed);
    }
    session kept;
    EXPECT_FALSE(visit("a.test", kept));
    EXPECT_EQ(visit("", kept), version == gyre::tls::version::tls_1_3);
  }
}

// A resumed session is not verified again.
TEST(TlsEngine, AClientOffersASessionToTheHostOfItsCertificateOnly) {
  const tls_context serves = tls_context::server(serving());
  const tls_context asks = tls_context::client(trusting());
  engines first(serves, asks);
  ASSERT_EQ(first.server.write_tickets(), engine::status::done);
  first.client.feed(first.to_client.bytes());
  ASSERT_EQ(first.client.peek(), engine::status::wants_input);
  gyre::io::buffer output;
  const auto offers = [&](const char* host) {
    const engine client(asks, host, first.client.newest_session(), output);
    return SSL_get_session(client.native()) != nullptr;
  };
  EXPECT_TRUE(offers("localhost"));
  EXPECT_TRUE(offers("LocalHost."));
  EXPECT_FALSE(offers("other.test"));
  EXPECT_FALSE(offers("10.1.2.3"));
}

}  // namespace
}  // namespace engine_test

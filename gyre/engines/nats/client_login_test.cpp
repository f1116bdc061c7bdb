// SPDX-License-Identifier: Apache-2.0
// Logins, permissions and TLS of NATS clients, at real servers.
#include <gyre/engines/nats/client.hpp>
#include <gyre/engines/nats/client_test_support.hpp>
#include <gyre/engines/nats/detail/nkey.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/error.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/tls/error.hpp>
#include <gyre/tls/tls_context.hpp>
#include <gyre/tls/tls_test_support.hpp>
#include <tests/support/failed_call.hpp>
#include <tests/support/nats_server.hpp>
#include <tests/support/tls_certificates.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace nats_client_login_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::nats::client;
using gyre::nats::client_options;
using gyre::nats::errc;
using gyre::nats::notice;
using gyre::nats::subscription;
using gyre::nats::detail::nkey;
using gyre::test::nats_server;
using gyre::test::calls::error_of;
using gyre::test::calls::message_of;
using nats_test::notices;
using nats_test::text_of;
using testing::HasSubstr;
using testing::Not;

constexpr const char* seed = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";

struct NatsLogin : testing::Test {
  gyre::loop loop;

  void run(task<> test) { gyre::sync_wait(loop, gyre::with_timeout(std::move(test), 250s)); }
};

// Returns whether a message comes back from the server.
task<bool> works(client& bus) {
  subscription all = bus.subscribe("a");
  co_await bus.publish("a", "x");
  const std::string text = co_await text_of(all.next());
  co_return text == "x";
}

TEST_F(NatsLogin, UsesAUserAndAPassword) {
  run([](NatsLogin& test) -> task<> {
    const auto server =
        co_await nats_server::start(test.loop, "authorization { user: me, password: \"p@ss\" }");
    client bus(test.loop, server->address(), {.user = "me", .password = "p@ss"});
    EXPECT_TRUE(co_await works(bus));
    client by_text(test.loop, "nats://me:p%40ss@" + server->address());
    EXPECT_TRUE(co_await works(by_text));
  }(*this));
}

TEST_F(NatsLogin, UsesAToken) {
  run([](NatsLogin& test) -> task<> {
    const auto server =
        co_await nats_server::start(test.loop, "authorization { token: \"se:cret\" }");
    client bus(test.loop, server->address(), {.token = "se:cret"});
    EXPECT_TRUE(co_await works(bus));
    client by_text(test.loop, "nats://se%3Acret@" + server->address());
    EXPECT_TRUE(co_await works(by_text));
  }(*this));
}

TEST_F(NatsLogin, UsesAKey) {
  run([](NatsLogin& test) -> task<> {
    const auto server = co_await nats_server::start(
        test.loop, "authorization { users: [ { nkey: " + nkey(seed).public_key() + " } ] }");
    client bus(test.loop, server->address(), {.nkey_seed = seed});
    EXPECT_TRUE(co_await works(bus));
    client unknown(test.loop, server->address(),
                   {.nkey_seed = "SUAFK3X53UKZK7QECXF7CRVPYLKQTBPMTGVOEEDS6TBALFTUYX65QXAZYI"});
    EXPECT_EQ(co_await error_of(unknown.connect()), errc::authorization_violation);
  }(*this));
}

TEST_F(NatsLogin, GivesUpWhenEveryServerRefusesTheUser) {
  run([](NatsLogin& test) -> task<> {
    const auto server =
        co_await nats_server::start(test.loop, "authorization { user: me, password: secret }");
    client bus(test.loop, server->address(), {.user = "me", .password = "wrong"});
    subscription all = bus.subscribe("a");
    const std::string text = co_await message_of(bus.publish("a", "x"));
    EXPECT_THAT(text, HasSubstr(server->address()));
    EXPECT_THAT(text, HasSubstr("Authorization Violation"));
    EXPECT_THAT(text, Not(HasSubstr("wrong")));
    EXPECT_EQ(co_await error_of(all.next()), errc::authorization_violation);
    EXPECT_EQ(co_await error_of(bus.flush()), std::errc::permission_denied);
    EXPECT_EQ(bus.metrics().subscriptions, 0U);
    EXPECT_THROW(static_cast<void>(bus.subscribe("a")), std::system_error);
  }(*this));
}

TEST_F(NatsLogin, TriesServersThatDoNotRefuseTheUser) {
  run([](NatsLogin& test) -> task<> {
    const auto strict =
        co_await nats_server::start(test.loop, "authorization { user: me, password: secret }");
    const auto open = co_await nats_server::start(test.loop);
    client bus(test.loop, strict->address() + ',' + open->address(),
               {.shuffle_servers = false, .initial_delay = 1ms});
    EXPECT_TRUE(co_await works(bus));
    EXPECT_EQ(bus.metrics().servers, 2U);
  }(*this));
}

TEST_F(NatsLogin, RefusesCredentialsThatCannotBeRead) {
  run([](NatsLogin& test) -> task<> {
    const auto server = co_await nats_server::start(test.loop);
    client seed_client(test.loop, server->address(), {.nkey_seed = "SU"});
    EXPECT_EQ(co_await error_of(seed_client.connect()), errc::bad_credentials);
    client file_client(test.loop, server->address(), {.credentials_file = "/none"});
    EXPECT_EQ(co_await error_of(file_client.connect()), std::errc::no_such_file_or_directory);
    client without_nonce(test.loop, server->address(), {.nkey_seed = seed});
    EXPECT_EQ(co_await error_of(without_nonce.connect()), errc::nonce_missing);
  }(*this));
}

TEST_F(NatsLogin, ReportsWhatAUserMayNotDo) {
  run([](NatsLogin& test) -> task<> {
    const auto server = co_await nats_server::start(
        test.loop,
        "authorization { users: [ { user: me, password: x, permissions: {"
        " publish: { deny: \"secret.>\" },"
        " subscribe: { deny: [\"secret.>\", \"_INBOX.>\"] } } } ] }");
    const client_options options{.user = "me", .password = "x"};
    client bus(test.loop, server->address(), options);
    notices events(bus);
    subscription denied = bus.subscribe("secret.a");
    subscription denied_group = bus.subscribe("secret.b", {.queue_group = "q"});
    subscription allowed = bus.subscribe("a");
    EXPECT_EQ(co_await error_of(denied.next()), errc::permission_denied);
    EXPECT_EQ(co_await error_of(denied_group.next()), errc::permission_denied);
    EXPECT_THAT(co_await message_of(denied.next()), HasSubstr("secret.a"));
    EXPECT_EQ(co_await error_of(bus.request("secret.a", "x", {.timeout = 1h})),
              errc::permission_denied);
    EXPECT_EQ(co_await error_of(bus.request("a", "x", {.timeout = 1h})), errc::permission_denied);
    EXPECT_THAT(co_await events.wait_for(notice::server_error), HasSubstr("secret.a"));
    EXPECT_EQ(co_await text_of(allowed.next()), "x");
    EXPECT_EQ(bus.metrics().connected, 1U);
    EXPECT_GE(bus.metrics().server_errors, 4U);
    client_options own = options;
    own.inbox_prefix = "mine";
    client other(test.loop, server->address(), own);
    EXPECT_EQ(co_await error_of(other.request("nobody", "x", {.timeout = 1h})),
              errc::no_responders);
  }(*this));
}

// --- JSON web tokens ---

std::string base64(std::string_view bytes) {
  constexpr std::string_view letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string text;
  unsigned pending = 0;
  unsigned bits = 0;
  for (const char each : bytes) {
    pending = (pending << 8U | static_cast<unsigned char>(each)) & 0xFFFFU;
    for (bits += 8; bits >= 6; bits -= 6) text += letters[(pending >> (bits - 6)) % 64];
  }
  if (bits > 0) text += letters[(pending << (6 - bits)) % 64];
  return text;
}

// A token that `issuer` has signed, of a kind such as "user", for the subject's public key.
std::string token(const nkey& issuer, std::string_view subject, std::string_view kind) {
  const std::string head = base64(R"({"typ":"JWT","alg":"ed25519-nkey"})");
  const std::string body =
      base64(R"({"jti":"1","iat":1700000000,"iss":")" + issuer.public_key() +
             R"(","name":"test","sub":")" + std::string(subject) + R"(","nats":{"type":")" +
             std::string(kind) + R"(","version":2,"subs":-1,"data":-1,"payload":-1,)" +
             R"("limits":{"subs":-1,"data":-1,"payload":-1,"imports":-1,)" +
             R"("exports":-1,"wildcards":true,"conn":-1,"leaf":-1}}})");
  const std::string text = head + '.' + body;
  return text + '.' + issuer.sign(text);
}

TEST_F(NatsLogin, UsesAFileOfCredentials) {
  run([](NatsLogin& test) -> task<> {
    const nkey root("SOAIY622ZSIVZEDPL4JMGLND3WX36XQNVRI4MK357NIGOAKRJ5OWSB7NYY");
    const nkey account("SAADZC4YNBIECMBPE4LEOV6XTYN7N4WU3RHLZU65G4LWWRG4QZU7PVD2PM");
    const nkey user(seed);
    const auto server = co_await nats_server::start(
        test.loop, "operator: " + token(root, root.public_key(), "operator") +
                       "\nresolver: MEMORY\nresolver_preload: { " + account.public_key() + ": " +
                       token(root, account.public_key(), "account") + " }\n");
    const std::string credentials = "-----BEGIN NATS USER JWT-----\n" +
                                    token(account, user.public_key(), "user") +
                                    "\n------END NATS USER JWT------\n\n"
                                    "-----BEGIN USER NKEY SEED-----\n" +
                                    seed + "\n------END USER NKEY SEED------\n";
    const std::string file = server->files().make_file("user.creds", credentials);
    client bus(test.loop, server->address(), {.credentials_file = file});
    EXPECT_TRUE(co_await works(bus));
    client by_text(test.loop, server->address(), {.credentials = credentials});
    EXPECT_TRUE(co_await works(by_text));
    client other(test.loop, server->address(), {.user = "me", .password = "x"});
    EXPECT_EQ(co_await error_of(other.connect()), errc::authorization_violation);
  }(*this));
}

// --- TLS ---

// GCC 12 destroys temporaries of a braced class twice within an awaited expression, so that the
// settings of a server have a name.
struct NatsTls : NatsLogin {
  gyre::test::temporary_folder files;

  // Settings of a server with a certificate.
  std::string encrypted(const std::string& settings = "",
                        const gyre::test::certificate_request& request = {}) const {
    const auto issued = gyre::tls::test::authority().issue(request);
    return "tls { cert_file: \"" + files.make_file("cert.pem", issued.certificate) +
           "\", key_file: \"" + files.make_file("key.pem", issued.key) + "\", " + settings + " }\n";
  }
  static gyre::tls::tls_context context() {
    return gyre::tls::tls_context::client(gyre::tls::test::trusting());
  }
};

TEST_F(NatsTls, BeginsAfterInfo) {
  run([](NatsTls& test) -> task<> {
    const std::string settings = test.encrypted();
    const auto server = co_await nats_server::start(test.loop, settings);
    client bus(test.loop, server->address(), {.tls = test.context()});
    EXPECT_TRUE(co_await works(bus));
    const std::string large(900'000, 'x');
    subscription all = bus.subscribe("b");
    for (int each = 0; each < 5; ++each) co_await bus.publish("b", large);
    for (int each = 0; each < 5; ++each) EXPECT_EQ(co_await text_of(all.next()), large);
    EXPECT_EQ(bus.metrics().connected, 1U);
  }(*this));
}

TEST_F(NatsTls, BeginsBeforeInfo) {
  run([](NatsTls& test) -> task<> {
    const std::string settings = test.encrypted("handshake_first: true");
    const auto server = co_await nats_server::start(test.loop, settings);
    client bus(test.loop, server->address(), {.tls = test.context(), .tls_first = true});
    EXPECT_TRUE(co_await works(bus));
  }(*this));
}

TEST_F(NatsTls, IsNotLeftOutByEitherSide) {
  run([](NatsTls& test) -> task<> {
    const std::string settings = test.encrypted();
    const auto encrypted = co_await nats_server::start(test.loop, settings);
    client plain(test.loop, encrypted->address());
    EXPECT_EQ(co_await error_of(plain.connect()), errc::tls_required);
    const auto open = co_await nats_server::start(test.loop);
    client careful(test.loop, open->address(), {.tls = test.context()});
    EXPECT_EQ(co_await error_of(careful.connect()), errc::tls_not_available);
    client by_text(test.loop, "tls://" + open->address());
    EXPECT_EQ(co_await error_of(by_text.connect()), errc::tls_not_available);
  }(*this));
}

TEST_F(NatsTls, VerifiesTheCertificate) {
  run([](NatsTls& test) -> task<> {
    const std::string settings = test.encrypted("", {.alternative_names = "DNS:other.example"});
    const auto server = co_await nats_server::start(test.loop, settings);
    client bus(test.loop, server->address(), {.tls = test.context(), .max_connect_attempts = 1});
    EXPECT_EQ(co_await error_of(bus.connect()), gyre::tls::errc::certificate_wrong_host);
    client untrusting(test.loop, server->address(),
                      {.tls = gyre::tls::tls_context::client({.system_authorities = false}),
                       .max_connect_attempts = 1});
    EXPECT_EQ(co_await error_of(untrusting.connect()), gyre::tls::errc::certificate_unknown_issuer);
  }(*this));
}

TEST_F(NatsTls, ShowsACertificate) {
  run([](NatsTls& test) -> task<> {
    const std::string authorities =
        test.files.make_file("authorities.pem", gyre::tls::test::authority().certificate());
    const std::string settings = test.encrypted("ca_file: \"" + authorities + "\", verify: true");
    const auto server = co_await nats_server::start(test.loop, settings);
    const auto context = gyre::tls::tls_context::client(gyre::tls::test::showing_certificate());
    client bus(test.loop, server->address(), {.tls = context});
    EXPECT_TRUE(co_await works(bus));
  }(*this));
}

TEST_F(NatsTls, ConnectsAgain) {
  run([](NatsTls& test) -> task<> {
    const std::string settings = test.encrypted();
    const auto server = co_await nats_server::start(test.loop, settings);
    client bus(test.loop, server->address(),
               {.tls = test.context(), .max_connect_attempts = 1'000'000, .initial_delay = 1ms});
    EXPECT_TRUE(co_await works(bus));
    notices events(bus);
    co_await server->kill();
    static_cast<void>(co_await events.wait_for(notice::disconnected));
    co_await gyre::when_all(server->start_again(), bus.flush());
    EXPECT_TRUE(co_await works(bus));
  }(*this));
}

}  // namespace
}  // namespace nats_client_login_test

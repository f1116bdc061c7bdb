// SPDX-License-Identifier: Apache-2.0
// Tests of handshakes: certificates that are refused, mutual TLS, names, protocols, resumption.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/tls/detail/context_state.hpp>
#include <gyre/tls/detail/failure.hpp>
#include <gyre/tls/error.hpp>
#include <gyre/tls/tls_stream.hpp>
#include <gyre/tls/tls_test_support.hpp>
#include <tests/support/coroutine_sockets.hpp>
#include <tests/support/temporary_folder.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <openssl/ssl.h>

#include <span>
#include <string>
#include <string_view>

namespace handshake_test {
namespace {

using namespace gyre::tls::test;
using gyre::task;
using gyre::test::error_of;
using gyre::tls::errc;
using gyre::tls::pem;
using gyre::tls::server_options;
using gyre::tls::session;
using gyre::tls::tls_context;
using gyre::tls::tls_stream;
using testing::HasSubstr;

handshake_result with_certificate(gyre::event_loop& loop, const issued& own,
                                  std::string host = "localhost") {
  return shake_hands(loop, tls_context::server({.certificates = {in_memory(own)}}),
                     tls_context::client(trusting()), std::move(host));
}

TEST(TlsHandshake, AClientRefusesBadCertificatesAndSaysWhy) {
  gyre::loop loop;
  const auto expect = [&](const issued& own, errc code, const char* text) {
    const handshake_result got = with_certificate(loop, own);
    EXPECT_EQ(got.client_error, code);
    EXPECT_THAT(got.client_text, HasSubstr(text));
    EXPECT_EQ(got.server_error, errc::refused_by_peer);
    EXPECT_FALSE(got.client.is_open());
  };
  expect(authority().issue({.valid_from = -7200, .valid_to = -3600}), errc::certificate_expired,
         "the certificate has expired");
  expect(authority().issue({.valid_from = 3600, .valid_to = 7200}), errc::certificate_not_yet_valid,
         "not yet valid");
  expect(test_authority::self_signed(), errc::certificate_self_signed, "self-signed");
  expect(test_authority("another authority").issue(), errc::certificate_unknown_issuer,
         "unknown issuer");
  expect(authority().issue({.common_name = "a.example", .alternative_names = "DNS:a.example"}),
         errc::certificate_wrong_host, "certificate is for a.example, not localhost");
  expect(authority().issue({.alternative_names = "DNS:a.example,DNS:b.example,DNS:c.example,"
                                                 "DNS:d.example,DNS:e.example"}),
         errc::certificate_wrong_host,
         "certificate is for a.example, b.example, c.example and 2 more, not localhost");
  expect(authority().issue({.alternative_names = ""}), errc::certificate_wrong_host,
         "for no DNS name or address (a common name does not count), not localhost");
  expect(authority().issue({.alternative_names = "IP:10.1.2.4,IP:fd00::7,DNS:A.example"}),
         errc::certificate_wrong_host,
         "certificate is for a.example, 10.1.2.4, fd00::7, not localhost");
  const handshake_result got =
      with_certificate(loop, authority().issue({.alternative_names = "IP:10.1.2.4"}), "10.1.2.3");
  EXPECT_EQ(got.client_error, errc::certificate_wrong_host);
  EXPECT_THAT(got.client_text, HasSubstr("certificate is for 10.1.2.4, not 10.1.2.3"));
}

TEST(TlsHandshake, AClientChecksNamesWildcardsAndAddresses) {
  gyre::loop loop;
  const issued own = authority().issue({.alternative_names = "DNS:*.example.org,IP:10.1.2.3"});
  EXPECT_FALSE(with_certificate(loop, own, "www.example.org").client_error);
  EXPECT_FALSE(with_certificate(loop, own, "www.example.org.").client_error);
  EXPECT_FALSE(with_certificate(loop, own, "10.1.2.3").client_error);
  EXPECT_EQ(with_certificate(loop, own, "10.1.2.4").client_error, errc::certificate_wrong_host);
  EXPECT_EQ(with_certificate(loop, own, "example.org").client_error, errc::certificate_wrong_host);
  EXPECT_EQ(with_certificate(loop, own, "a.b.example.org").client_error,
            errc::certificate_wrong_host);
  EXPECT_EQ(with_certificate(loop, own, "").client_error, errc::bad_configuration);
}

TEST(TlsHandshake, AnAddressIsCheckedWithoutItsZone) {
  gyre::loop loop;
  const issued own = authority().issue({.alternative_names = "IP:fe80::1,IP:10.1.2.3"});
  for (const char* const host : {"fe80::1", "fe80::1%lo", "fe80:0::1%7", "fe80::1%nowhere0"}) {
    const handshake_result got = with_certificate(loop, own, host);
    EXPECT_FALSE(got.client_error) << host << ": " << got.client_text;
    EXPECT_EQ(got.client.info().server_name, "") << "an address is no server name (RFC 6066, 3)";
  }
  EXPECT_EQ(with_certificate(loop, own, "fe80::2%lo").client_error, errc::certificate_wrong_host);
  EXPECT_EQ(with_certificate(loop, own, "10.1.2.3%lo").client_error, errc::certificate_wrong_host);
}

// A root is not needed where something below it is trusted.
TEST(TlsHandshake, IntermediatesAndLeavesMayBeTrusted) {
  gyre::loop loop;
  test_authority intermediate("intermediate", authority());
  issued own = intermediate.issue();
  const std::string leaf = own.certificate;
  own.certificate += intermediate.certificate();
  const auto error_where_trusted = [&](const std::string& anchor) {
    server_options serves{.certificates = {in_memory(own)}};
    serves.clients = gyre::tls::client_certificates::required;
    serves.client_authorities = pem::text(anchor);
    gyre::tls::client_options asks{.system_authorities = false, .authorities = {pem::text(anchor)}};
    asks.own_certificate = in_memory(own);
    const handshake_result got =
        shake_hands(loop, tls_context::server(serves), tls_context::client(asks));
    return got.client_error ? got.client_error : got.server_error;
  };
  for (const std::string& anchor : {authority().certificate(), intermediate.certificate(), leaf}) {
    EXPECT_FALSE(error_where_trusted(anchor)) << anchor;
  }
  EXPECT_EQ(error_where_trusted(test_authority("other").certificate()),
            errc::certificate_unknown_issuer);
}

TEST(TlsHandshake, AClientRefusesRevokedCertificates) {
  gyre::loop loop;
  const issued good = authority().issue();
  const issued revoked = authority().issue();
  auto options = trusting();
  options.revocation_lists = {pem::text(authority().revocation_list(revoked.certificate))};
  const tls_context client = tls_context::client(options);
  const auto error_with = [&](const issued& own) {
    return shake_hands(loop, tls_context::server({.certificates = {in_memory(own)}}), client)
        .client_error;
  };
  EXPECT_FALSE(error_with(good));
  EXPECT_EQ(error_with(revoked), errc::certificate_revoked);
}

TEST(TlsHandshake, VerificationCanBeTurnedOff) {
  gyre::loop loop;
  const tls_context client = tls_context::client({.verify = false});
  const tls_context server =
      tls_context::server({.certificates = {in_memory(test_authority::self_signed())}});
  EXPECT_FALSE(shake_hands(loop, server, client, "").client_error);
  EXPECT_FALSE(shake_hands(loop, server, client, "elsewhere").client_error);
}

TEST(TlsHandshake, TheDefaultClientTrustsNoTestAuthority) {
  gyre::loop loop;
  const handshake_result got =
      shake_hands(loop, tls_context::server(serving()), tls_context::default_client());
  EXPECT_EQ(got.client_error, errc::certificate_unknown_issuer);
}

// --- Mutual TLS ---

task<std::size_t> read_one(tls_stream& from) {
  std::byte one[1];
  const std::size_t count = co_await from.read_some(one);
  co_return count;
}
task<> read_one_only(tls_stream& from) { co_await read_one(from); }

TEST(TlsHandshake, AServerDemandsACertificate) {
  gyre::loop loop;
  const tls_context server = tls_context::server(requiring_certificates());
  handshake_result good = shake_hands(loop, server, tls_context::client(showing_certificate()));
  EXPECT_FALSE(good.server_error) << good.server_error.message();
  EXPECT_EQ(good.server.info().peer_subject, "CN = client 1");

  handshake_result none = shake_hands(loop, server, tls_context::client(trusting()));
  EXPECT_EQ(none.server_error, errc::certificate_missing);
  // The client's handshake is over before the server refuses.
  EXPECT_EQ(error_of(loop, read_one_only(none.client)), errc::refused_by_peer);

  auto foreign = trusting();
  foreign.own_certificate = in_memory(test_authority("foreign").issue());
  EXPECT_EQ(shake_hands(loop, server, tls_context::client(foreign)).server_error,
            errc::certificate_unknown_issuer);
  auto expired = trusting();
  expired.own_certificate = in_memory(authority().issue({.valid_from = -9, .valid_to = -5}));
  EXPECT_EQ(shake_hands(loop, server, tls_context::client(expired)).server_error,
            errc::certificate_expired);
}

TEST(TlsHandshake, AServerOnlyRequestsACertificate) {
  gyre::loop loop;
  server_options options = serving();
  options.clients = gyre::tls::client_certificates::requested;
  options.client_authorities = pem::text(authority().certificate());
  const tls_context server = tls_context::server(options);
  const handshake_result none = shake_hands(loop, server, tls_context::client(trusting()));
  EXPECT_FALSE(none.server_error);
  EXPECT_EQ(none.server.info().peer_certificate, "");
  auto foreign = trusting();
  foreign.own_certificate = in_memory(test_authority("foreign").issue());
  EXPECT_TRUE(shake_hands(loop, server, tls_context::client(foreign)).server_error);
}

// --- Names and protocols ---

TEST(TlsHandshake, TheServerNameChoosesTheCertificate) {
  gyre::loop loop;
  server_options options = serving({.common_name = "first", .alternative_names = "DNS:first.test"});
  options.certificates.push_back(in_memory(
      authority().issue({.common_name = "second", .alternative_names = "DNS:second.test"})));
  options.certificates.push_back(in_memory(
      authority().issue({.common_name = "wild", .alternative_names = "DNS:*.wild.test"})));
  const tls_context client = tls_context::client(trusting());
  const tls_context server = tls_context::server(options);
  const auto subject = [&](const char* host) {
    const handshake_result got = shake_hands(loop, server, client, host);
    return got.client_error ? got.client_error.message() : got.client.info().peer_subject;
  };
  EXPECT_EQ(subject("first.test"), "CN = first");
  EXPECT_EQ(subject("SECOND.test"), "CN = second");
  EXPECT_EQ(subject("any.wild.test"), "CN = wild");
  EXPECT_EQ(shake_hands(loop, server, client, "unknown.test").client_error,
            errc::certificate_wrong_host);
  options.refuse_unknown_names = true;
  server.reload(options);
  EXPECT_EQ(subject("second.test"), "CN = second");
  const handshake_result refused = shake_hands(loop, server, client, "unknown.test");
  EXPECT_EQ(refused.server_error, errc::unknown_server_name);
  EXPECT_EQ(refused.client_error, errc::refused_by_peer);
}

// The name of a certificate's kind of key, for a client that can verify only that kind.
std::string key_of(gyre::event_loop& loop, const tls_context& server, const char* host,
                   const char* signatures, gyre::tls::version version) {
  auto options = trusting();
  options.max_version = version;
  options.verify = false;
  options.request_ocsp_staple = true;
  const tls_context client = tls_context::client(options);
  SSL_CTX* const native = client.state()->current()->entries.front().context.get();
  EXPECT_EQ(SSL_CTX_set1_sigalgs_list(native, signatures), 1);
  const handshake_result got = shake_hands(loop, server, client, host);
  if (got.client_error) return got.client_error.message();
  const auto info = got.client.info();
  const std::string_view staple(reinterpret_cast<const char*>(info.ocsp_staple.data()),
                                info.ocsp_staple.size());
  return info.peer_subject + " " + std::string(staple);
}

TEST(TlsHandshake, ANameMayHaveCertificatesOfSeveralKindsOfKeys) {
  gyre::loop loop;
  const auto made = [](const char* name, unsigned rsa_bits, const char* names) {
    gyre::tls::certificate own = in_memory(
        authority().issue({.common_name = name, .alternative_names = names, .rsa_bits = rsa_bits}));
    const auto staple = std::as_bytes(std::span(std::string_view(name)));
    own.ocsp_staple.assign(staple.begin(), staple.end());
    return own;
  };
  server_options options;
  options.certificates = {made("rsa", 2048, "DNS:both.test,DNS:rsa.test"),
                          made("ecdsa", 0, "DNS:both.test,DNS:*.wild.test"),
                          made("second", 0, "DNS:both.test"),
                          made("wild rsa", 2048, "DNS:*.wild.test")};
  const tls_context server = tls_context::server(options);
  for (const auto version : {gyre::tls::version::tls_1_2, gyre::tls::version::tls_1_3}) {
    const auto with = [&](const char* host, const char* signatures) {
      return key_of(loop, server, host, signatures, version);
    };
    const char* const rsa = "RSA-PSS+SHA256:RSA+SHA256";
    const char* const any = "RSA-PSS+SHA256:RSA+SHA256:ECDSA+SHA256";
    EXPECT_EQ(with("both.test", rsa), "CN = rsa rsa");
    EXPECT_EQ(with("both.test", "ECDSA+SHA256"), "CN = ecdsa ecdsa");
    EXPECT_EQ(with("both.test", any), "CN = ecdsa ecdsa");
    EXPECT_EQ(with("rsa.test", any), "CN = rsa rsa");
    EXPECT_EQ(with("any.wild.test", rsa), "CN = wild rsa wild rsa");
    EXPECT_EQ(with("any.wild.test", any), "CN = ecdsa ecdsa");
    // The default certificate comes with those beside it.
    EXPECT_EQ(with("unknown.test", "ECDSA+SHA256"), "CN = ecdsa ecdsa");
    EXPECT_EQ(with("unknown.test", rsa), "CN = rsa rsa");
  }
}

TEST(TlsHandshake, ChoosesAnApplicationProtocol) {
  gyre::loop loop;
  server_options options = serving();
  options.application_protocols = {"h2", "http/1.1"};
  const tls_context server = tls_context::server(options);
  const auto offering = [](std::vector<std::string> protocols) {
    auto client = trusting();
    client.application_protocols = std::move(protocols);
    return tls_context::client(client);
  };
  const handshake_result both = shake_hands(loop, server, offering({"http/1.1", "h2"}));
  EXPECT_EQ(both.client.info().application_protocol, "h2") << "the server prefers it";
  EXPECT_EQ(both.server.info().application_protocol, "h2");
  const handshake_result none = shake_hands(loop, server, offering({}));
  EXPECT_EQ(none.server.info().application_protocol, "");
  const handshake_result other = shake_hands(loop, server, offering({"smtp"}));
  EXPECT_EQ(other.server_error, errc::no_shared_application);
  EXPECT_EQ(other.client_error, errc::refused_by_peer);
  EXPECT_THAT(other.client_text, HasSubstr("no application protocol"));
}

TEST(TlsHandshake, NeedsACommonVersion) {
  gyre::loop loop;
  server_options options = serving();
  options.min_version = gyre::tls::version::tls_1_3;
  auto old = trusting();
  old.max_version = gyre::tls::version::tls_1_2;
  const handshake_result got =
      shake_hands(loop, tls_context::server(options), tls_context::client(old));
  EXPECT_EQ(got.server_error, errc::no_shared_version);
  EXPECT_EQ(got.client_error, errc::refused_by_peer);
}

TEST(TlsHandshake, StaplesAnOcspResponseForClientsThatAsk) {
  gyre::loop loop;
  server_options options = serving();
  options.certificates.front().ocsp_staple = {std::byte{1}, std::byte{2}, std::byte{3}};
  auto client = trusting();
  const tls_context server = tls_context::server(options);
  EXPECT_TRUE(
      shake_hands(loop, server, tls_context::client(client)).client.info().ocsp_staple.empty());
  client.request_ocsp_staple = true;
  EXPECT_EQ(shake_hands(loop, server, tls_context::client(client)).client.info().ocsp_staple,
            options.certificates.front().ocsp_staple);
}

// --- Sessions and reload ---

task<> say(tls_stream& to, std::string text) { co_await to.write_all(text); }

/// A connection that may have been resumed, and the session to resume it with.
std::pair<bool, session> visit(gyre::event_loop& loop, const tls_context& server,
                               const tls_context& client, const session& resumed) {
  handshake_result got = shake_hands(loop, server, client, "localhost", resumed);
  EXPECT_FALSE(got.client_error) << got.client_text;
  gyre::sync_wait(loop, gyre::when_all(say(got.server, "x"), read_one_only(got.client)));
  EXPECT_EQ(got.server.info().resumed, got.client.info().resumed);
  EXPECT_EQ(got.server.info().server_name, "localhost");
  return {got.client.info().resumed, got.client.session()};
}

TEST(TlsHandshake, AClientResumesASession) {
  gyre::loop loop;
  const tls_context client = tls_context::client(trusting());
  for (const auto version : {gyre::tls::version::tls_1_2, gyre::tls::version::tls_1_3}) {
    server_options options = serving();
    options.max_version = version;
    const tls_context server = tls_context::server(options);
    auto [first_resumed, first] = visit(loop, server, client, {});
    EXPECT_FALSE(first_resumed);
    ASSERT_TRUE(first);
    const session loaded = session::load(first.save());
    ASSERT_TRUE(loaded);
    auto [second_resumed, second] = visit(loop, server, client, loaded);
    EXPECT_TRUE(second_resumed);
    ASSERT_TRUE(second);
    // Tickets survive a reload, but are no use to another server.
    server.reload();
    EXPECT_TRUE(visit(loop, server, client, second).first);
    const tls_context other = tls_context::server(serving());
    EXPECT_FALSE(visit(loop, other, client, first).first);
  }
  EXPECT_FALSE(session::load({}));
  EXPECT_TRUE(session().save().empty());
}

std::size_t ticket_size(gyre::event_loop& loop, const tls_context& server, std::string host) {
  const tls_context client = tls_context::client({.verify = false});
  handshake_result got = shake_hands(loop, server, client, std::move(host));
  gyre::sync_wait(loop, gyre::when_all(say(got.server, "x"), read_one_only(got.client)));
  const session kept = got.client.session();
  const unsigned char* ticket = nullptr;
  std::size_t size = 0;
  SSL_SESSION_get0_ticket(static_cast<SSL_SESSION*>(kept.native()), &ticket, &size);
  return size;
}

TEST(TlsHandshake, TicketsOfTls13CarryNoName) {
  gyre::loop loop;
  const tls_context server = tls_context::server(serving());
  const std::size_t size = ticket_size(loop, server, "a.test");
  EXPECT_GT(size, 0u);
  EXPECT_EQ(ticket_size(loop, server, std::string(60, 'a') + ".test"), size);
}

TEST(TlsHandshake, ASessionIsNotOfferedUnderOtherRules) {
  gyre::loop loop;
  const tls_context server = tls_context::server(serving());
  const tls_context client = tls_context::client(trusting());
  const tls_context careless = tls_context::client({.verify = false});
  const session unverified = visit(loop, server, careless, {}).second;
  EXPECT_FALSE(visit(loop, server, client, unverified).first);
  const session verified = visit(loop, server, client, {}).second;
  EXPECT_TRUE(visit(loop, server, client, verified).first);
  client.reload();
  EXPECT_FALSE(visit(loop, server, client, verified).first);
}

TEST(TlsHandshake, AClientWithACertificateResumesASession) {
  gyre::loop loop;
  const tls_context server = tls_context::server(requiring_certificates());
  const tls_context client = tls_context::client(showing_certificate());
  const session first = visit(loop, server, client, {}).second;
  handshake_result again = shake_hands(loop, server, client, "localhost", first);
  EXPECT_TRUE(again.server.info().resumed);
  EXPECT_EQ(again.server.info().peer_subject, "CN = client 1");
}

// Tickets are judged by it when they are opened.
TEST(TlsHandshake, ASessionKnowsThatTheCertificateOfItsPeerHasExpired) {
  gyre::loop loop;
  const tls_context client = tls_context::client({.verify = false});
  for (const long valid_to : {86400L, -5L}) {
    const tls_context server =
        tls_context::server(serving({.valid_from = -3600, .valid_to = valid_to}));
    const session made = visit(loop, server, client, {}).second;
    ASSERT_TRUE(made);
    EXPECT_EQ(
        gyre::tls::detail::has_expired_certificate(static_cast<const SSL_SESSION*>(made.native())),
        valid_to < 0);
  }
}

TEST(TlsHandshake, ATicketIsNoUseWhenTheAuthoritiesOfClientsHaveChanged) {
  gyre::loop loop;
  server_options options = requiring_certificates();
  const auto with_own = showing_certificate();
  for (const auto version : {gyre::tls::version::tls_1_2, gyre::tls::version::tls_1_3}) {
    options.max_version = version;
    const tls_context server = tls_context::server(options);
    const tls_context client = tls_context::client(with_own);
    const session first = visit(loop, server, client, {}).second;
    ASSERT_TRUE(first);
    server_options others = options;
    gyre::tls::test::test_authority another;
    others.client_authorities = pem::text(another.certificate());
    server.reload(others);
    const handshake_result again = shake_hands(loop, server, client, "localhost", first);
    EXPECT_TRUE(again.server_error);
  }
}

TEST(TlsHandshake, WithoutTicketsEachHandshakeIsFull) {
  gyre::loop loop;
  const tls_context client = tls_context::client(trusting());
  for (const auto version : {gyre::tls::version::tls_1_2, gyre::tls::version::tls_1_3}) {
    server_options options = serving();
    options.max_version = version;
    options.ticket_lifetime = std::chrono::seconds(0);
    const tls_context server = tls_context::server(options);
    const session first = visit(loop, server, client, {}).second;
    EXPECT_FALSE(visit(loop, server, client, first).first);
  }
}

TEST(TlsHandshake, TicketsLiveForAWeekAtMost) {
  gyre::loop loop;
  const tls_context client = tls_context::client(trusting());
  for (const auto version : {gyre::tls::version::tls_1_2, gyre::tls::version::tls_1_3}) {
    server_options options = serving();
    options.max_version = version;
    options.ticket_lifetime = std::chrono::hours::max();
    const tls_context server = tls_context::server(options);
    const session first = visit(loop, server, client, {}).second;
    ASSERT_TRUE(first);
    EXPECT_TRUE(visit(loop, server, client, first).first);
  }
}

TEST(TlsHandshake, AReloadIsForNewConnectionsWhileOthersLiveOn) {
  gyre::loop loop;
  const gyre::test::temporary_folder folder;
  const auto write_files = [&folder](const char* name) {
    const issued own = authority().issue({.common_name = name});
    folder.make_file("chain.pem", own.certificate);
    folder.make_file("key.pem", own.key);
  };
  write_files("old");
  const tls_context server =
      tls_context::server({.certificates = {{.chain = pem::file(folder / "chain.pem"),
                                             .key = pem::file(folder / "key.pem")}}});
  const tls_context client = tls_context::client(trusting());
  handshake_result before = shake_hands(loop, server, client);
  write_files("new");
  server.reload();
  handshake_result after = shake_hands(loop, server, client);
  EXPECT_EQ(before.client.info().peer_subject, "CN = old");
  EXPECT_EQ(after.client.info().peer_subject, "CN = new");
  for (handshake_result* const each : {&before, &after}) {
    gyre::sync_wait(loop, gyre::when_all(say(each->client, "y"), read_one_only(each->server)));
  }
}

// --- Over TCP ---

task<> serve_one(gyre::net::tcp_listener& listener, tls_context context) {
  auto accepted = co_await listener.accept();
  auto secure = co_await gyre::tls::accept(std::move(accepted), context);
  co_await secure.write_all("welcome");
  co_await secure.shutdown();
  co_await read_one(secure);
}

task<std::string> visit_by_name(std::string server, tls_context context) {
  auto secure = co_await gyre::tls::connect(server, context);
  EXPECT_EQ(secure.peer_endpoint().to_string(), secure.options().peer_endpoint().to_string());
  std::string text(7, ' ');
  co_await secure.read_exactly(std::as_writable_bytes(std::span(text.data(), text.size())));
  co_return text;
}

TEST(TlsHandshake, ConnectsToAHostByTextOverTcp) {
  gyre::loop loop;
  for (const std::string host : {"127.0.0.1", "localhost"}) {
    gyre::net::tcp_listener listener(loop,
                                     gyre::net::endpoint(gyre::net::ip_address::loopback_v4(), 0));
    const std::string to = host + ":" + std::to_string(listener.local_endpoint().port());
    const auto [served, text] =
        gyre::sync_wait(loop, gyre::when_all(serve_one(listener, tls_context::server(serving())),
                                             visit_by_name(to, tls_context::client(trusting()))));
    EXPECT_EQ(text, "welcome");
  }
}

task<> accept_with(gyre::net::tcp_stream end, tls_context context) {
  auto made = co_await gyre::tls::accept(std::move(end), context);
}
task<> connect_with(gyre::net::tcp_stream end, tls_context context) {
  auto made = co_await gyre::tls::connect(std::move(end), "localhost", context);
}

TEST(TlsHandshake, AContextIsForOneSide) {
  gyre::loop loop;
  for (const tls_context& context : {tls_context(), tls_context::client(trusting())}) {
    auto [one, other] = socket_pair(loop);
    EXPECT_EQ(error_of(loop, accept_with(std::move(one), context)), errc::bad_configuration);
  }
  for (const tls_context& context : {tls_context(), tls_context::server(serving())}) {
    auto [one, other] = socket_pair(loop);
    EXPECT_EQ(error_of(loop, connect_with(std::move(one), context)), errc::bad_configuration);
  }
}

}  // namespace
}  // namespace handshake_test

// SPDX-License-Identifier: Apache-2.0
// Peers that are no PostgreSQL server, or a hostile one.
#include <gyre/engines/postgres/detail/connection_core.hpp>

#include <gyre/engines/postgres/error.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/tls/error.hpp>
#include <gyre/tls/tls_stream.hpp>
#include <tests/support/failed_call.hpp>
#include <tests/support/postgres_peer.hpp>
#include <tests/support/postgres_requests.hpp>
#include <tests/support/tls_certificates.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace postgres_foreign_peers_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::postgres::errc;
using gyre::postgres::detail::connection_core;
using gyre::postgres::detail::connection_options;
using gyre::postgres::detail::tls_mode;
using gyre::test::login_bytes;
using gyre::test::make_core;
using gyre::test::prepared_bytes;
using gyre::test::ready_bytes;
using gyre::test::row_bytes;
using gyre::test::run_script;
using gyre::test::run_statement;
using gyre::test::server_bytes;
using gyre::test::tag_bytes;
using gyre::test::calls::error_of;
using gyre::test::calls::message_of;
using testing::ElementsAre;
using testing::HasSubstr;

template <std::size_t Size>
std::string_view raw(const char (&text)[Size]) {
  return {text, Size - 1};
}

// Sends each of `parts` after something has come, and then reads until the end.
template <class Stream>
task<> reply(Stream& peer, std::vector<std::string> parts) {
  for (const std::string& each : parts) {
    const auto request = co_await peer.receive();
    if (request.empty()) co_return;
    co_await peer.write_all(each);
  }
  for (;;) {
    const auto rest = co_await peer.receive();
    if (rest.empty()) co_return;
  }
}

struct PostgresPeer : testing::Test {
  gyre::loop loop;
  gyre::net::tcp_listener listener{loop,
                                   gyre::net::endpoint(gyre::net::ip_address::loopback_v4(), 0)};

  std::shared_ptr<connection_core> connect(connection_options options = {}) {
    options.max_connect_attempts = 1;
    return make_core(loop, listener.local_endpoint().to_string(), options);
  }
  // Accepts a connection, and replies.
  task<> serve(std::vector<std::string> parts) {
    gyre::net::tcp_stream peer = co_await listener.accept();
    auto replying = gyre::as_result(reply(peer, std::move(parts)));
    static_cast<void>(co_await std::move(replying));
  }
  task<> serve_and_close(std::string bytes) {
    gyre::net::tcp_stream peer = co_await listener.accept();
    static_cast<void>(co_await peer.receive());
    co_await peer.write_all(bytes);
    peer.close();
  }
  // Returns the error of `call` while the peer serves.
  template <class T>
  std::error_code error_during(task<> service, task<T> call) {
    auto both = gyre::when_all(std::move(service), error_of(close_after(std::move(call))));
    return std::get<1>(gyre::sync_wait(loop, std::move(both)));
  }
  template <class T>
  task<> close_after(task<T> call) {
    const auto result = co_await gyre::as_result(std::move(call));
    core->close();
    if (!result) std::rethrow_exception(result.error());
  }

  std::shared_ptr<connection_core> core = connect();
};

struct strange_bytes {
  const char* name;
  std::string bytes;
  errc error = errc::bad_message;
};

void PrintTo(const strange_bytes& value, std::ostream* stream) { *stream << value.name; }

struct PostgresLoginPeer : PostgresPeer, testing::WithParamInterface<strange_bytes> {};

TEST_P(PostgresLoginPeer, IsGivenUp) {
  EXPECT_EQ(error_during(serve({GetParam().bytes}), run_script(core, "select 1")),
            GetParam().error);
}

const std::string accepted = server_bytes('R', raw("\0\0\0\0"));

INSTANTIATE_TEST_SUITE_P(
    Bytes, PostgresLoginPeer,
    testing::Values(
        strange_bytes{"http", "HTTP/1.1 400 Bad Request\r\n\r\n"},
        strange_bytes{"tls", std::string(raw("\x15\3\1\0\2\2\x46"))},
        strange_bytes{"ready_without_login", ready_bytes()}, strange_bytes{"row", row_bytes("x")},
        strange_bytes{"transaction", accepted + ready_bytes('T')},
        strange_bytes{"large", std::string(raw("R\x7f\xff\xff\xff")), errc::message_too_large},
        strange_bytes{"short", std::string(raw("R\0\0\0\3"))},
        strange_bytes{"bad_error", server_bytes('E', "C")},
        strange_bytes{"bad_setting", server_bytes('S', "ab")},
        strange_bytes{"twice", accepted + accepted},
        strange_bytes{"gss", server_bytes('R', raw("\0\0\0\7")), errc::unsupported_authentication},
        strange_bytes{"float_times",
                      accepted + server_bytes('S', raw("integer_datetimes\0off\0")) + ready_bytes(),
                      errc::server_too_old},
        strange_bytes{"refused", server_bytes('E', raw("SFATAL\0C28000\0Mno\0\0")),
                      errc::invalid_authorization}),
    [](const auto& each) { return std::string(each.param.name); });

struct PostgresReplyPeer : PostgresPeer, testing::WithParamInterface<strange_bytes> {};

TEST_P(PostgresReplyPeer, IsGivenUp) {
  EXPECT_EQ(error_during(serve({login_bytes(), GetParam().bytes}), run_script(core, "select 1")),
            GetParam().error);
}

INSTANTIATE_TEST_SUITE_P(
    Bytes, PostgresReplyPeer,
    testing::Values(strange_bytes{"unknown", "x"}, strange_bytes{"authentication", accepted},
                    strange_bytes{"bad_status", ready_bytes('X')},
                    strange_bytes{"bad_row", server_bytes('D', raw("\0\1\xff\xff\xff\xfe"))},
                    strange_bytes{"short_row", server_bytes('D', raw("\0\2\0\0\0\1x"))},
                    strange_bytes{"bad_tag", server_bytes('C', "SELECT 1")},
                    strange_bytes{"data_without_copy", server_bytes('d', "x")},
                    strange_bytes{"done_without_copy", server_bytes('c')},
                    strange_bytes{"both_directions", server_bytes('W', raw("\0\0\0"))},
                    strange_bytes{"bad_notification", server_bytes('A', raw("\0\0\0\1ab"))},
                    strange_bytes{"bad_parameters", server_bytes('t', raw("\0\2\0\0\0\1"))},
                    strange_bytes{"bad_error", server_bytes('E', "Mx")},
                    strange_bytes{"large", std::string(raw("D\x7f\xff\xff\xff")),
                                  errc::message_too_large},
                    strange_bytes{"open_transaction", ready_bytes('T'), errc::connection_lost},
                    strange_bytes{"last_words", server_bytes('E', raw("SFATAL\0C57P01\0Mbye\0\0")),
                                  errc::connection_lost}),
    [](const auto& each) { return std::string(each.param.name); });

TEST_F(PostgresPeer, IsGivenUpForMessagesThatNobodyAskedFor) {
  gyre::sync_wait(loop, [](PostgresPeer& test) -> task<> {
    auto two_replies = [](PostgresPeer& fixture) -> task<> {
      const auto first = co_await run_script(fixture.core, "select 1");
      EXPECT_THAT(first.rows, ElementsAre(ElementsAre("x")));
      while (fixture.core->is_ready()) {
        co_await error_of(run_script(fixture.core, "select 2"));
      }
      fixture.core->close();
    };
    const std::string reply = row_bytes("x") + tag_bytes("SELECT 1") + ready_bytes();
    auto parts = gyre::test::texts(login_bytes(), reply + row_bytes("y"));
    auto both = gyre::when_all(test.serve(std::move(parts)), two_replies(test));
    co_await std::move(both);
  }(*this));
}

TEST_F(PostgresPeer, PreparesFromItsDescription) {
  gyre::sync_wait(loop, [](PostgresPeer& test) -> task<> {
    auto call = [](PostgresPeer& fixture) -> task<> {
      const auto result = co_await run_statement(fixture.core, "select 1");
      EXPECT_THAT(result.rows, ElementsAre(ElementsAre("x")));
      fixture.core->close();
    };
    const std::string reply =
        server_bytes('2') + row_bytes("x") + tag_bytes("SELECT 1") + ready_bytes();
    auto parts = gyre::test::texts(login_bytes(), prepared_bytes(), reply);
    auto both = gyre::when_all(test.serve(std::move(parts)), call(test));
    co_await std::move(both);
  }(*this));
}

TEST_F(PostgresPeer, IsGivenUpForABadDescription) {
  const std::string cut = server_bytes('1') + server_bytes('T', raw("\0\1a\0\0\0\0\0"));
  EXPECT_EQ(error_during(serve({login_bytes(), cut}), run_statement(core, "select 1")),
            errc::bad_message);
}

TEST_F(PostgresPeer, CountsAsAFailedAttemptIfItCloses) {
  EXPECT_EQ(error_during(serve_and_close(""), run_script(core, "select 1")), errc::connection_lost);
  core = connect();
  EXPECT_EQ(error_during(serve_and_close(accepted), run_script(core, "select 1")),
            errc::connection_lost);
}

TEST_F(PostgresPeer, IsGivenUpIfItSaysNothing) {
  core = connect({.ping_timeout = 30ms});
  EXPECT_EQ(error_during(serve({""}), run_script(core, "select 1")), errc::no_reply);
}

TEST_F(PostgresPeer, SaysThatItBegins) {
  const std::string begins =
      server_bytes('E', raw("SFATAL\0C57P03\0Mthe database system is starting up\0\0"));
  auto both =
      gyre::when_all(serve({begins}), message_of(close_after(run_script(core, "select 1"))));
  const auto [served, text] = gyre::sync_wait(loop, std::move(both));
  EXPECT_THAT(text, HasSubstr("starting up"));
}

// --- Requests that are sent together ---

constexpr std::string_view gathered_script = "select 1";

// Returns how many requests are in the bytes.
std::size_t count_requests(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::size_t count = 0;
  for (auto at = text.find(gathered_script); at != text.npos;
       at = text.find(gathered_script, at + 1)) {
    ++count;
  }
  return count;
}

TEST_F(PostgresPeer, GetsRequestsTogetherWhileItHasOthers) {
  constexpr std::size_t callers = 8;
  auto service = [](PostgresPeer& test) -> task<> {
    gyre::net::tcp_stream peer = co_await test.listener.accept();
    static_cast<void>(co_await peer.receive());
    co_await peer.write_all(login_bytes());
    for (std::size_t came = 0; came < callers;) {
      const auto requests = co_await peer.receive();
      came += count_requests(requests);
    }
    const std::string reply = row_bytes("x") + tag_bytes("SELECT 1") + ready_bytes();
    co_await peer.write_all(reply);
    while (test.core->in_flight() == callers) co_await gyre::schedule(test.loop);
    while (test.core->in_flight() != callers) co_await gyre::schedule(test.loop);
    for (int turn = 0; turn < 10; ++turn) co_await gyre::schedule(test.loop);
    char byte = 0;
    EXPECT_EQ(::recv(peer.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT), -1) << "seven are there";
    co_await peer.write_all(reply);
    const auto requests = co_await peer.receive();
    EXPECT_EQ(count_requests(requests), 2U);
    test.core->close();
  };
  auto call = [](PostgresPeer& test) -> task<> {
    while (!co_await error_of(run_script(test.core, std::string(gathered_script)))) {
    }
  };
  std::vector<task<>> all;
  all.push_back(service(*this));
  for (std::size_t each = 0; each < callers; ++each) all.push_back(call(*this));
  gyre::sync_wait(loop, gyre::when_all(std::move(all)));
}

// --- Direct TLS, as of PostgreSQL 17 ---

struct PostgresDirectTls : PostgresPeer {
  gyre::test::test_authority authority;

  task<> serve_tls(std::vector<std::string> protocols) {
    const gyre::test::issued own = authority.issue();
    const auto context = gyre::tls::tls_context::server(
        {.certificates = {{.chain = gyre::tls::pem::text(own.certificate),
                           .key = gyre::tls::pem::text(own.key)}},
         .application_protocols = std::move(protocols)});
    gyre::net::tcp_stream accepted_peer = co_await listener.accept();
    auto handshake = gyre::as_result(gyre::tls::accept(std::move(accepted_peer), context));
    auto peer = co_await std::move(handshake);
    if (!peer) co_return;
    auto replying = gyre::as_result(
        reply(*peer, {login_bytes(), row_bytes("x") + tag_bytes("SELECT 1") + ready_bytes()}));
    static_cast<void>(co_await std::move(replying));
  }
  void connect_directly() {
    connection_options options{.encryption = tls_mode::direct,
                               .tls = gyre::tls::tls_context::client(
                                   {.system_authorities = false,
                                    .authorities = {gyre::tls::pem::text(authority.certificate())},
                                    .application_protocols = {"postgresql"}})};
    core = connect(options);
  }
};

TEST_F(PostgresDirectTls, NeedsTheProtocolsName) {
  connect_directly();
  EXPECT_EQ(error_during(serve_tls({"postgresql"}), run_script(core, "select 1")),
            std::error_code());
  connect_directly();
  EXPECT_EQ(error_during(serve_tls({}), run_script(core, "select 1")), errc::tls_refused);
}

}  // namespace
}  // namespace postgres_foreign_peers_test

// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/login.hpp>

#include <gyre/engines/postgres/detail/connection_core.hpp>
#include <gyre/engines/postgres/error.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>
#include <gyre/tls/error.hpp>
#include <gyre/tls/tls_context.hpp>
#include <tests/support/failed_call.hpp>
#include <tests/support/postgres_requests.hpp>
#include <tests/support/postgres_server.hpp>
#include <tests/support/tls_certificates.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace login_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::postgres::errc;
using gyre::postgres::detail::channel_binding;
using gyre::postgres::detail::connection_core;
using gyre::postgres::detail::connection_options;
using gyre::postgres::detail::credentials;
using gyre::postgres::detail::login;
using gyre::postgres::detail::tls_mode;
using gyre::test::make_core;
using gyre::test::postgres_server;
using gyre::test::run_script;
using gyre::test::run_statement;
using gyre::test::calls::error_of;
using gyre::test::calls::message_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// --- Without a server ---

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// An authentication message, whose kind is a byte.
std::vector<std::byte> message(char kind, std::string_view text = {}) {
  std::string body("\0\0\0", 3);
  body.append(1, kind).append(text);
  const auto bytes = std::as_bytes(std::span(body));
  return {bytes.begin(), bytes.end()};
}
constexpr char ok = 0;
constexpr char cleartext = 3;
constexpr char md5 = 5;
constexpr char gss = 7;
constexpr char sasl = 10;
constexpr char sasl_continue = 11;
constexpr char sasl_final = 12;
constexpr std::string_view scram("SCRAM-SHA-256\0\0", 15);
constexpr std::string_view both_scrams("SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0", 34);

struct PostgresLogin : testing::Test {
  connection_options options{.login = std::make_shared<credentials>("user", "pencil")};
  std::vector<std::byte> channel = std::vector<std::byte>(32, std::byte{1});
  gyre::io::buffer output;

  // The error of the last of `messages`, after others that are taken.
  std::error_code error_after(const std::vector<std::vector<std::byte>>& messages,
                              bool is_encrypted = false) {
    login machine(options, is_encrypted ? channel : std::vector<std::byte>(), is_encrypted);
    return error_of_last(machine, messages);
  }
  std::error_code error_of_last(login& machine,
                                const std::vector<std::vector<std::byte>>& messages) {
    for (std::size_t index = 0; index < messages.size(); ++index) {
      try {
        machine.respond(messages[index], output);
      } catch (const std::system_error& error) {
        EXPECT_EQ(index + 1, messages.size()) << error.what();
        return error.code();
      }
    }
    return machine.is_done() ? std::error_code()
                             : std::make_error_code(std::errc::already_connected);
  }
};

TEST_F(PostgresLogin, TakesAServerThatAsksNothing) {
  EXPECT_EQ(error_after({message(ok)}), std::error_code());
  EXPECT_TRUE(output.empty());
  EXPECT_EQ(error_after({message(ok), message(ok)}), errc::bad_message);
  options.binding = channel_binding::require;
  EXPECT_EQ(error_after({message(ok)}, true), errc::channel_binding_missing);
}

TEST_F(PostgresLogin, SendsAPasswordOnlyIfThatIsAllowed) {
  EXPECT_EQ(error_after({message(cleartext)}), errc::unsupported_authentication);
  EXPECT_EQ(error_after({message(md5, "salt")}), errc::unsupported_authentication);
  EXPECT_TRUE(output.empty());
  options.allow_md5 = options.allow_cleartext_password = true;
  EXPECT_EQ(error_after({message(cleartext), message(ok)}), std::error_code());
  EXPECT_EQ(as_text(output.bytes()), std::string_view("p\0\0\0\x0bpencil\0", 12));
  output.clear();
  EXPECT_EQ(error_after({message(md5, "salt"), message(ok)}), std::error_code());
  // The md5sum of "salt" after the md5sum of "penciluser".
  EXPECT_EQ(as_text(output.bytes()).substr(5, 35), "md5d3d9bcccbaa2fb5234570d4d0f22b055");
  EXPECT_EQ(error_after({message(md5, "sal")}), errc::bad_message);
  options.binding = channel_binding::require;
  EXPECT_EQ(error_after({message(cleartext)}, true), errc::unsupported_authentication);
  EXPECT_EQ(error_after({message(md5, "salt")}, true), errc::unsupported_authentication);
}

TEST_F(PostgresLogin, NeedsAPassword) {
  options.login = std::make_shared<credentials>("user", "");
  options.allow_md5 = options.allow_cleartext_password = true;
  EXPECT_EQ(error_after({message(cleartext)}), errc::invalid_password);
  EXPECT_EQ(error_after({message(md5, "salt")}), errc::invalid_password);
  EXPECT_EQ(error_after({message(sasl, scram)}), errc::invalid_password);
  EXPECT_TRUE(output.empty());
}

TEST_F(PostgresLogin, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(error_after({message(gss)}), errc::unsupported_authentication);
  EXPECT_EQ(error_after({message(99)}), errc::unsupported_authentication);
  EXPECT_EQ(error_after({message(sasl, std::string_view("SCRAM-SHA-1\0\0", 13))}),
            errc::unsupported_authentication);
  EXPECT_EQ(error_after({message(sasl, "SCRAM-SHA-256")}), errc::bad_message);
  EXPECT_EQ(error_after({message(sasl, both_scrams)}), errc::bad_message) << "without TLS";
  EXPECT_EQ(error_after({message(sasl_continue, "r=x")}), errc::bad_message);
  EXPECT_EQ(error_after({message(sasl_final, "v=x")}), errc::bad_message);
}

TEST_F(PostgresLogin, AcceptsNoServerThatHasNotProvedItself) {
  EXPECT_EQ(error_after({message(sasl, scram), message(ok)}), errc::server_not_authenticated);
  EXPECT_EQ(error_after({message(sasl, scram), message(sasl, scram)}), errc::bad_message);
  EXPECT_EQ(error_after({message(sasl, scram), message(sasl_final, "v=x")}), errc::bad_message);
  EXPECT_EQ(error_after({message(sasl, scram), message(cleartext)}), errc::bad_message);
  output.clear();
  // A server's answer to the nonce that the client has chosen.
  login machine(options, {}, false);
  machine.respond(message(sasl, scram), output);
  const std::string_view sent = as_text(output.bytes());
  const std::string nonce(sent.substr(sent.find("r=") + 2));
  const std::string first = "r=" + nonce + "server,s=QSXCR+Q6sek8bf92,i=4096";
  machine.respond(message(sasl_continue, first), output);
  EXPECT_EQ(error_of_last(machine, {message(ok)}), errc::server_not_authenticated);
  const auto wrong = message(sasl_final, "v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
  EXPECT_EQ(error_of_last(machine, {wrong}), errc::server_not_authenticated);
  EXPECT_EQ(error_of_last(machine, {message(sasl_final, "e=other-error")}), errc::bad_message);
}

TEST_F(PostgresLogin, BindsItselfToTheChannel) {
  const auto sent_after_sasl = [this](std::string_view mechanisms, bool is_encrypted) {
    output.clear();
    login machine(options, is_encrypted ? channel : std::vector<std::byte>(), is_encrypted);
    machine.respond(message(sasl, mechanisms), output);
    return std::string(as_text(output.bytes()));
  };
  EXPECT_THAT(sent_after_sasl(both_scrams, true), HasSubstr("p=tls-server-end-point,,n=,r="));
  EXPECT_THAT(sent_after_sasl(scram, true), HasSubstr("y,,n=,r="));
  EXPECT_THAT(sent_after_sasl(scram, false), HasSubstr("n,,n=,r="));
  options.binding = channel_binding::disable;
  EXPECT_THAT(sent_after_sasl(both_scrams, true), HasSubstr("n,,n=,r="));
  options.binding = channel_binding::require;
  EXPECT_THAT(sent_after_sasl(both_scrams, true), HasSubstr("p=tls-server-end-point,,"));
  EXPECT_EQ(error_after({message(sasl, scram)}, true), errc::channel_binding_missing);
}

// --- With a server ---

constexpr const char* users =
    "set password_encryption = 'scram-sha-256'; create user scrammed password 'a secret';"
    "create user plain password 'a secret';"
    "create user accented password U&'\\00e9t\\00e9\\00a0x';"
    "set password_encryption = 'md5'; create user hashed password 'a secret';";

task<std::string> name_of(std::shared_ptr<connection_core> core) {
  const auto result = co_await run_statement(std::move(core), "select current_user");
  co_return result.rows[0][0];
}

struct PostgresLogins : testing::Test {
  gyre::loop loop;
  postgres_server server{
      loop,
      {.logins = {"local all scrammed scram-sha-256", "local all accented scram-sha-256",
                  "local all hashed md5", "local all plain password", "local all nobody reject"}}};

  PostgresLogins() { gyre::sync_wait(loop, run_script(make_core(loop, server.address()), users)); }
  std::shared_ptr<connection_core> connect(const connection_options& options) {
    return make_core(loop, server.address(), options);
  }
  std::shared_ptr<connection_core> connect_as(const char* user, const char* password,
                                              connection_options options) {
    options.login = std::make_shared<credentials>(user, password);
    return connect(options);
  }
  task<std::string> log_in(const char* user, const char* password,
                           const connection_options& options) {
    return name_of(connect_as(user, password, options));
  }

  const connection_options defaults;
};

TEST_F(PostgresLogins, ProveThePassword) {
  gyre::sync_wait(loop, [](PostgresLogins& test) -> task<> {
    EXPECT_EQ(co_await test.log_in("scrammed", "a secret", test.defaults), "scrammed");
    // The server maps the no-break space to a space.
    EXPECT_EQ(co_await test.log_in("accented", "\u00e9t\u00e9\u00a0x", test.defaults), "accented");
    EXPECT_EQ(co_await test.log_in("accented", "\u00e9t\u00e9 x", test.defaults), "accented");
    const connection_options md5_allowed{.allow_md5 = true};
    EXPECT_EQ(co_await test.log_in("hashed", "a secret", md5_allowed), "hashed");
    const connection_options cleartext_allowed{.allow_cleartext_password = true};
    EXPECT_EQ(co_await test.log_in("plain", "a secret", cleartext_allowed), "plain");
  }(*this));
}

TEST_F(PostgresLogins, FailWithClearErrors) {
  gyre::sync_wait(loop, [](PostgresLogins& test) -> task<> {
    EXPECT_EQ(co_await error_of(test.log_in("scrammed", "wrong", test.defaults)),
              errc::invalid_password);
    EXPECT_EQ(co_await error_of(test.log_in("hashed", "a secret", test.defaults)),
              errc::unsupported_authentication);
    EXPECT_EQ(co_await error_of(test.log_in("plain", "a secret", test.defaults)),
              errc::unsupported_authentication);
    EXPECT_EQ(co_await error_of(test.log_in("nobody", "", test.defaults)),
              errc::invalid_authorization);
    const connection_options no_database{.database = "missing"};
    EXPECT_EQ(co_await error_of(name_of(test.connect(no_database))), errc::undefined_database);
    const connection_options no_setting{.parameters = {{"no_setting", "1"}}};
    EXPECT_THAT(co_await message_of(name_of(test.connect(no_setting))), HasSubstr("no_setting"));
  }(*this));
}

TEST_F(PostgresLogins, AskNoMoreForAMomentAfterAWrongPassword) {
  gyre::sync_wait(loop, [](PostgresLogins& test) -> task<> {
    const auto core = test.connect_as("scrammed", "wrong", test.defaults);
    EXPECT_EQ(co_await error_of(name_of(core)), errc::invalid_password);
    const std::size_t logged = test.server.log().size();
    EXPECT_EQ(co_await error_of(name_of(core)), errc::invalid_password);
    EXPECT_EQ(test.server.log().size(), logged);
  }(*this));
}

TEST_F(PostgresLogins, WaitWhileAllConnectionsOfTheServerAreTaken) {
  gyre::sync_wait(loop, [](PostgresLogins& test) -> task<> {
    const auto administrator = test.connect(test.defaults);
    co_await run_script(administrator, "alter user scrammed connection limit 0");
    const auto core =
        test.connect_as("scrammed", "a secret", {.max_connect_attempts = 3, .initial_delay = 1ms});
    EXPECT_EQ(co_await error_of(name_of(core)), errc::too_many_connections);
    co_await run_script(administrator, "alter user scrammed connection limit 1");
    // The server may still count connections that it has refused.
    while (co_await error_of(name_of(core)) == errc::too_many_connections) {
    }
    EXPECT_EQ(co_await name_of(core), "scrammed");
  }(*this));
}

TEST_F(PostgresLogins, AreTriedAgainIfTheConnectionIsNeeded) {
  gyre::sync_wait(loop, [](PostgresLogins& test) -> task<> {
    const auto core = test.connect_as("scrammed", "another secret", {.longest_delay = 1ms});
    core->set_needed(true);
    EXPECT_EQ(co_await error_of(name_of(core)), errc::invalid_password);
    const auto administrator = test.connect(test.defaults);
    co_await run_script(administrator, "alter user scrammed password 'another secret'");
    while (core->connection_number() == 0) co_await gyre::sleep_for(10ms);
    EXPECT_EQ(co_await name_of(core), "scrammed");
    core->close();
  }(*this));
}

TEST_F(PostgresLogins, SetParametersOfTheSession) {
  gyre::sync_wait(loop, [](PostgresLogins& test) -> task<> {
    const auto core = test.connect(
        {.parameters = {{"application_name", "a shop"}, {"statement_timeout", "12345"}}});
    const auto shown = co_await run_script(core, "show application_name; show statement_timeout");
    EXPECT_THAT(shown.rows, ElementsAre(ElementsAre("a shop"), ElementsAre("12345ms")));
    EXPECT_EQ(core->parameter("application_name"), "a shop");
  }(*this));
}

// --- TLS ---

struct PostgresTls : testing::Test {
  gyre::test::test_authority authority;
  gyre::test::issued identity = authority.issue();
  gyre::loop loop;
  postgres_server server{
      loop,
      {.logins = {"hostssl all scrammed all scram-sha-256", "hostssl all client all cert",
                  "host all postgres all trust", "hostnossl all all all reject"},
       .has_tcp = true,
       .certificate = identity.certificate,
       .key = identity.key,
       .client_authorities = authority.certificate()}};

  PostgresTls() {
    gyre::sync_wait(loop, run_script(make_core(loop, server.address()),
                                     std::string(users) + "create user client"));
  }
  connection_options options(const char* user = "scrammed", const char* password = "a secret") {
    return {.login = std::make_shared<credentials>(user, password),
            .encryption = tls_mode::negotiate,
            .tls = gyre::tls::tls_context::client(
                {.system_authorities = false,
                 .authorities = {gyre::tls::pem::text(authority.certificate())}}),
            .max_connect_attempts = 1};
  }
  std::shared_ptr<connection_core> connect(const connection_options& options,
                                           const std::string& host = "localhost") {
    return make_core(loop, host + ":" + std::to_string(server.port()), options);
  }
};

constexpr const char* is_encrypted = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";

TEST_F(PostgresTls, EncryptsAndVerifies) {
  gyre::sync_wait(loop, [](PostgresTls& test) -> task<> {
    for (const char* host : {"localhost", "127.0.0.1"}) {
      const auto core = test.connect(test.options(), host);
      const auto result = co_await run_statement(core, is_encrypted);
      EXPECT_THAT(result.rows, ElementsAre(ElementsAre("t")));
      const std::string large(1'000'000, 'x');
      const auto same = co_await run_statement(core, "select $1::text", gyre::test::texts(large));
      EXPECT_EQ(same.rows[0][0], large);
    }
  }(*this));
}

TEST_F(PostgresTls, BindsTheLoginToTheCertificate) {
  gyre::sync_wait(loop, [](PostgresTls& test) -> task<> {
    for (const channel_binding each :
         {channel_binding::prefer, channel_binding::require, channel_binding::disable}) {
      connection_options options = test.options();
      options.binding = each;
      EXPECT_EQ(co_await name_of(test.connect(options)), "scrammed");
    }
    connection_options options = test.options("postgres", "");
    options.binding = channel_binding::require;
    EXPECT_EQ(co_await error_of(name_of(test.connect(options))), errc::channel_binding_missing);
  }(*this));
}

TEST_F(PostgresTls, ProvesItselfByACertificate) {
  gyre::sync_wait(loop, [](PostgresTls& test) -> task<> {
    const gyre::test::issued own =
        test.authority.issue({.common_name = "client", .alternative_names = "DNS:client"});
    connection_options options = test.options("client", "");
    EXPECT_EQ(co_await error_of(name_of(test.connect(options))), errc::invalid_authorization);
    options.tls = gyre::tls::tls_context::client(
        {.system_authorities = false,
         .authorities = {gyre::tls::pem::text(test.authority.certificate())},
         .own_certificate = gyre::tls::certificate{.chain = gyre::tls::pem::text(own.certificate),
                                                   .key = gyre::tls::pem::text(own.key)}});
    EXPECT_EQ(co_await name_of(test.connect(options)), "client");
  }(*this));
}

TEST_F(PostgresTls, RefusesOtherServers) {
  gyre::sync_wait(loop, [](PostgresTls& test) -> task<> {
    const gyre::test::test_authority other("another");
    connection_options options = test.options();
    options.tls = gyre::tls::tls_context::client(
        {.system_authorities = false, .authorities = {gyre::tls::pem::text(other.certificate())}});
    const auto error = co_await error_of(name_of(test.connect(options)));
    EXPECT_EQ(error, std::errc::permission_denied) << error.message();
    options = test.options();
    options.encryption = tls_mode::direct;  // needs PostgreSQL 17
    EXPECT_NE(co_await error_of(name_of(test.connect(options))), std::error_code());
  }(*this));
}

TEST_F(PostgresTls, CancelsOverTls) {
  gyre::sync_wait(loop, [](PostgresTls& test) -> task<> {
    const auto core = test.connect(test.options());
    co_await run_statement(core, "select 1");
    co_await gyre::test::admit(core);
    gyre::test::sent_request request(core);
    core->query(request, "select pg_sleep(1000)");
    core->cancel(request);
    co_await request.wait();
    EXPECT_FALSE(request.was_lost());
    EXPECT_EQ(co_await name_of(core), "scrammed");
    EXPECT_EQ(core->connection_number(), 1U);
  }(*this));
}

TEST(PostgresWithoutTls, RefusesToGoOnInPlain) {
  gyre::loop loop;
  postgres_server server(loop, {.logins = {"host all all all trust"}, .has_tcp = true});
  connection_options options{
      .encryption = tls_mode::negotiate,
      .tls = gyre::tls::tls_context::client({.verify = false, .system_authorities = false}),
      .max_connect_attempts = 1};
  const auto core = make_core(loop, "127.0.0.1:" + std::to_string(server.port()), options);
  EXPECT_EQ(gyre::sync_wait(loop, error_of(name_of(core))), errc::tls_refused);
}

}  // namespace
}  // namespace login_test

// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/connection_core.hpp>

#include <gyre/engines/postgres/error.hpp>
#include <gyre/engines/postgres/oid.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/error.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/stop_when.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <tests/support/failed_call.hpp>
#include <tests/support/postgres_requests.hpp>
#include <tests/support/postgres_server.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace connection_core_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::postgres::errc;
using gyre::postgres::server_error;
using gyre::postgres::server_message;
using gyre::postgres::detail::connection_core;
using gyre::postgres::detail::connection_observer;
using gyre::postgres::detail::connection_options;
using gyre::postgres::detail::execute_options;
using gyre::postgres::detail::is_stale;
using gyre::postgres::detail::transaction_status;
using gyre::test::make_core;
using gyre::test::postgres_server;
using gyre::test::run_script;
using gyre::test::run_statement;
using gyre::test::sent_request;
using gyre::test::texts;
using gyre::test::calls::error_of;
using gyre::test::calls::message_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

struct PostgresConnection : testing::Test {
  gyre::loop loop;
  postgres_server server{loop};

  void run(task<> test) { gyre::sync_wait(loop, std::move(test)); }
  auto connect(const connection_options& options = {}) {
    return make_core(loop, server.address(), options);
  }
  auto open_session() { return connect({.is_shared = false, .reconnects = false}); }
};

TEST_F(PostgresConnection, ExecutesStatements) {
  run([](PostgresConnection& test) -> task<> {
    const auto core = test.connect();
    const auto sum = co_await run_statement(core, "select $1::int + $2::int, 'x'", texts(40, 2));
    EXPECT_THAT(sum.rows, ElementsAre(ElementsAre("42", "x")));
    EXPECT_EQ(sum.tag, "SELECT 1");
    EXPECT_EQ(sum.status, transaction_status::idle);
    const auto null = co_await run_statement(core, "select null");
    EXPECT_THAT(null.rows, ElementsAre(ElementsAre("NULL")));
    const auto none = co_await run_statement(core, "");
    EXPECT_THAT(none.rows, IsEmpty());
    EXPECT_EQ(core->connection_number(), 1U);
    EXPECT_THAT(core->parameter("server_version"), testing::StartsWith("1"));
    EXPECT_EQ(core->parameter("client_encoding"), "UTF8");
    EXPECT_EQ(core->parameter("none"), "");
  }(*this));
}

TEST_F(PostgresConnection, ExecutesScripts) {
  run([](PostgresConnection& test) -> task<> {
    const auto core = test.connect();
    const auto made =
        co_await run_script(core, "create table t (n int); insert into t values (1), (2)");
    EXPECT_EQ(made.tag, "INSERT 0 2");
    const auto read = co_await run_script(core, "select n from t order by n; select 'x'");
    EXPECT_THAT(read.rows, ElementsAre(ElementsAre("1"), ElementsAre("2"), ElementsAre("x")));
    EXPECT_EQ(co_await error_of(run_script(core, "select 1/0")), errc::division_by_zero);
  }(*this));
}

TEST_F(PostgresConnection, DescribesColumnsAndParameters) {
  run([](PostgresConnection& test) -> task<> {
    const auto core = test.connect(
        {.is_binary = [](std::uint32_t type) { return type == gyre::postgres::oids::int4; }});
    auto preparing =
        connection_core::prepare(core, "select $1::int as number, $2::varchar(5) as \"a b\"");
    const auto statement = co_await std::move(preparing);
    namespace oids = gyre::postgres::oids;
    EXPECT_THAT(statement->parameters(), ElementsAre(oids::int4, oids::varchar));
    EXPECT_EQ(statement->columns().size(), 2U);
    const auto& number = statement->columns()[0];
    EXPECT_EQ(number.name, "number");
    EXPECT_EQ(number.type, oids::int4);
    EXPECT_TRUE(number.is_binary);
    const auto& text = statement->columns()[1];
    EXPECT_EQ(text.name, "a b");
    EXPECT_EQ(text.type_modifier, 5 + 4);
    EXPECT_FALSE(text.is_binary);
    co_await gyre::test::admit(core);
    sent_request request(core);
    core->execute(request, *statement, gyre::test::as_texts(texts(258, "x")));
    co_await request.wait();
    const std::string binary("\0\0\1\2", 4);
    EXPECT_THAT(request.result().rows, ElementsAre(ElementsAre(binary, "x")));
  }(*this));
}

task<> add_up(std::shared_ptr<connection_core> core, int seed) {
  for (int each = 0; each < 20; ++each) {
    const std::vector<std::string> values = texts(seed, each);
    const auto sum = co_await run_statement(core, "select $1::int * 100 + $2::int", values);
    EXPECT_THAT(sum.rows, ElementsAre(ElementsAre(std::to_string(seed * 100 + each))));
  }
}

TEST_F(PostgresConnection, GivesEachCallerItsReply) {
  run([](PostgresConnection& test) -> task<> {
    const auto core = test.connect({.max_in_flight = 7});
    std::vector<task<>> all;
    for (int seed = 0; seed < 50; ++seed) all.push_back(add_up(core, seed));
    co_await gyre::when_all(std::move(all));
    EXPECT_EQ(core->connection_number(), 1U);
    EXPECT_EQ(core->in_flight(), 0U);
  }(*this));
}

TEST_F(PostgresConnection, GivesAnErrorToItsCallerOnly) {
  run([](PostgresConnection& test) -> task<> {
    const auto core = test.connect();
    co_await run_script(core, "create table t (n int constraint positive check (n > 0))");
    auto all = gyre::when_all(error_of(run_statement(core, "select 1")),
                              error_of(run_statement(core, "insert into t values (-1)")),
                              error_of(run_statement(core, "selec")),
                              error_of(run_statement(core, "insert into t values (1)")));
    const auto [first, refused, wrong, last] = co_await std::move(all);
    EXPECT_EQ(first, std::error_code());
    EXPECT_EQ(refused, errc::check_violation);
    EXPECT_EQ(wrong, errc::syntax_error);
    EXPECT_EQ(last, std::error_code());
    try {
      co_await run_statement(core, "insert into t values (-1)");
    } catch (const server_error& error) {
      EXPECT_EQ(error.severity(), "ERROR");
      EXPECT_EQ(error.sqlstate(), "23514");
      EXPECT_EQ(error.constraint(), "positive");
      EXPECT_EQ(error.table(), "t");
      EXPECT_EQ(error.schema(), "public");
      EXPECT_THAT(error.detail(), HasSubstr("-1"));
    }
    try {
      co_await run_statement(core, "select * frm t");
    } catch (const server_error& error) {
      EXPECT_EQ(error.position(), 10U);
    }
    EXPECT_EQ(core->connection_number(), 1U);
  }(*this));
}

TEST_F(PostgresConnection, RefusesTextsWithAZeroByte) {
  run([](PostgresConnection& test) -> task<> {
    const auto core = test.connect();
    const std::string text("select 1\0; drop table t", 23);
    EXPECT_THAT(co_await message_of(run_statement(core, text)), HasSubstr("zero byte"));
    EXPECT_THAT(co_await message_of(run_script(core, text)), HasSubstr("zero byte"));
    const auto one = co_await run_statement(core, "select 1");
    EXPECT_THAT(one.rows, SizeIs(1));
    EXPECT_EQ(core->in_flight(), 0U);
  }(*this));
}

TEST_F(PostgresConnection, SendsNothingOfAStatementWhoseParametersFail) {
  run([](PostgresConnection& test) -> task<> {
    const auto core = test.connect({.max_in_flight = 1});
    auto preparing = connection_core::prepare(core, "select $1::int");
    const auto statement = co_await std::move(preparing);
    for (int each = 0; each < 3; ++each) {
      co_await gyre::test::admit(core);
      sent_request request(core);
      const auto fail = [](gyre::io::buffer& output) {
        output.append("some bytes");
        throw std::out_of_range("a parameter");
      };
      EXPECT_THROW(core->execute(request, *statement, fail), std::out_of_range);
      EXPECT_FALSE(request.is_in_flight());
    }
    const auto one = co_await run_statement(core, "select $1::int", texts(1));
    EXPECT_THAT(one.rows, ElementsAre(ElementsAre("1")));
  }(*this));
}

TEST_F(PostgresConnection, CarriesLargeValues) {
  run([](PostgresConnection& test) -> task<> {
    const auto core = test.connect({.max_message = 6'000'000});
    const std::string value(5'000'000, 'x');
    const auto same = co_await run_statement(core, "select $1::text", texts(value));
    EXPECT_EQ(same.rows[0][0], value);
    const std::string_view twice = "select $1::text || $1::text";
    const auto error = co_await error_of(run_statement(core, std::string(twice), texts(value)));
    EXPECT_EQ(error, errc::message_too_large);
    const auto one = co_await run_statement(core, "select 1");
    EXPECT_THAT(one.rows, SizeIs(1));
    EXPECT_EQ(core->connection_number(), 2U);
  }(*this));
}

TEST_F(PostgresConnection, BoundsTheCallsThatWait) {
  run([](PostgresConnection& test) -> task<> {
    const auto core = test.connect({.max_in_flight = 1, .max_waiting = 1});
    auto both = gyre::when_all(error_of(run_statement(core, "select 1")),
                               error_of(run_statement(core, "select 2")));
    const auto [first, second] = co_await std::move(both);
    EXPECT_EQ(first, std::error_code());
    EXPECT_EQ(second, gyre::io::errc::waiting_limit);
  }(*this));
}

TEST_F(PostgresConnection, RefusesOtherThreads) {
  const auto core = connect();
  gyre::loop_thread other;
  const auto error =
      gyre::sync_wait(gyre::on(other.loop(), error_of(run_statement(core, "select 1"))));
  EXPECT_EQ(error, gyre::io::errc::wrong_thread);
}

TEST_F(PostgresConnection, RefusesOptionsThatMakeNoSense) {
  using gyre::postgres::detail::channel_binding;
  using gyre::postgres::detail::credentials;
  using gyre::postgres::detail::tls_mode;
  EXPECT_THROW(connect({.login = std::make_shared<credentials>("", "")}), std::invalid_argument);
  EXPECT_THROW(connect({.database = std::string("a\0b", 3)}), std::invalid_argument);
  EXPECT_THROW(connect({.max_message = 10}), std::invalid_argument);
  EXPECT_THROW(connect({.max_message = std::size_t{1} << 31}), std::invalid_argument);
  EXPECT_THROW(connect({.max_in_flight = 0}), std::invalid_argument);
  EXPECT_THROW(connect({.max_connect_attempts = 0}), std::invalid_argument);
  EXPECT_THROW(connect({.ping_timeout = 0s}), std::invalid_argument);
  EXPECT_THROW(connect({.binding = channel_binding::require}), std::invalid_argument);
  EXPECT_THROW(connect({.encryption = tls_mode::negotiate}), std::invalid_argument);
  const auto context = gyre::tls::tls_context::client({.system_authorities = false});
  EXPECT_THROW(connect({.encryption = tls_mode::negotiate, .tls = context}), std::invalid_argument)
      << "over a Unix socket";
}

// --- Statements before, in the same transaction ---

TEST_F(PostgresConnection, ExecutesStatementsBeforeInTheSameTransaction) {
  run([](PostgresConnection& test) -> task<> {
    const auto core = test.open_session();
    constexpr std::string_view begin[] = {"begin isolation level serializable read only",
                                          "select 'dropped'"};
    const execute_options options{.prefix = begin};
    const std::string text = "select current_setting('transaction_isolation')";
    const auto first = co_await run_statement(core, text, texts(), options);
    EXPECT_THAT(first.rows, ElementsAre(ElementsAre("serializable")));
    EXPECT_EQ(first.status, transaction_status::open);
    const auto error = co_await error_of(run_script(core, "create table t (n int)"));
    EXPECT_EQ(error, errc::read_only_transaction);
    EXPECT_EQ(core->status(), transaction_status::failed);
    const auto end = co_await run_script(core, "commit");
    EXPECT_EQ(end.tag, "ROLLBACK");
    EXPECT_EQ(core->status(), transaction_status::idle);
  }(*this));
}

TEST_F(PostgresConnection, SkipsAStatementAfterAnErrorBeforeIt) {
  run([](PostgresConnection& test) -> task<> {
    const auto core = test.connect();
    co_await run_script(core, "create table t (n int)");
    constexpr std::string_view wrong[] = {"select 1/0"};
    const execute_options options{.prefix = wrong};
    const std::string text = "insert into t values (1)";
    const auto error = co_await error_of(run_statement(core, text, texts(), options));
    EXPECT_EQ(error, errc::division_by_zero);
    const auto none = co_await run_statement(core, "select * from t");
    EXPECT_THAT(none.rows, IsEmpty());
  }(*this));
}

TEST_F(PostgresConnection, LimitsTheTimeOfOneStatement) {
  run([](PostgresConnection& test) -> task<> {
    const auto core = test.connect();
    constexpr std::string_view limit[] = {
        "select pg_catalog.set_config('statement_timeout', '20', true)"};
    const execute_options options{.prefix = limit};
    const std::string text = "select pg_sleep($1::int)";
    const auto error = co_await error_of(run_statement(core, text, texts(1000), options));
    EXPECT_EQ(error, errc::query_canceled);
    const auto later = co_await run_statement(core, "show statement_timeout");
    EXPECT_THAT(later.rows, ElementsAre(ElementsAre("0")));
  }(*this));
}

TEST_F(PostgresConnection, FetchesThePartsOfAPortal) {
  run([](PostgresConnection& test) -> task<> {
    const auto core = test.open_session();
    constexpr std::string_view begin[] = {"begin"};
    const execute_options options{.prefix = begin, .portal = "rows", .max_rows = 3};
    const std::string text = "select generate_series(1, $1::int)";
    const auto first = co_await run_statement(core, text, texts(5), options);
    EXPECT_THAT(first.rows, ElementsAre(ElementsAre("1"), ElementsAre("2"), ElementsAre("3")));
    EXPECT_TRUE(first.is_suspended);
    co_await gyre::test::admit(core);
    sent_request next(core);
    core->execute_portal(next, "rows", 3);
    co_await next.wait();
    EXPECT_THAT(next.result().rows, ElementsAre(ElementsAre("4"), ElementsAre("5")));
    EXPECT_FALSE(next.result().is_suspended);
    co_await gyre::test::admit(core);
    sent_request close(core);
    core->close_portal(close, "rows");
    co_await close.wait();
    EXPECT_EQ(close.result().status, transaction_status::open);
    co_await run_script(core, "commit");
  }(*this));
}

// --- Prepared statements ---

task<std::string> count_prepared(std::shared_ptr<connection_core> core) {
  const auto count = co_await run_script(core, "select count(*) from pg_prepared_statements");
  co_return count.rows[0][0];
}

TEST_F(PostgresConnection, KeepsStatementsPrepared) {
  run([](PostgresConnection& test) -> task<> {
    const auto core = test.connect();
    EXPECT_EQ(core->find_prepared("select 1"), nullptr);
    auto first = connection_core::prepare(core, "select 1");
    auto second = connection_core::prepare(core, "select 1");
    auto both = gyre::when_all(std::move(first), std::move(second));
    const auto [one, same] = co_await std::move(both);
    EXPECT_EQ(one, same);
    EXPECT_EQ(core->find_prepared("select 1"), one);
    EXPECT_EQ(co_await count_prepared(core), "1");
  }(*this));
}

TEST_F(PostgresConnection, DropsTheStatementNotUsedForLongest) {
  run([](PostgresConnection& test) -> task<> {
    const auto core = test.connect({.max_statements = 2});
    for (const char* each : {"select 1", "select 2", "select 1", "select 3"}) {
      co_await run_statement(core, each);
    }
    EXPECT_NE(core->find_prepared("select 1"), nullptr);
    EXPECT_EQ(core->find_prepared("select 2"), nullptr);
    EXPECT_NE(core->find_prepared("select 3"), nullptr);
    co_await run_statement(core, "select 4");  // tells the server
    EXPECT_EQ(co_await count_prepared(core), "3");
  }(*this));
}

TEST_F(PostgresConnection, KeepsAStatementThatIsAboutToBeUsed) {
  run([](PostgresConnection& test) -> task<> {
    const auto core = test.connect({.max_statements = 1});
    auto preparing = connection_core::prepare(core, "select 'held'");
    const auto held = co_await std::move(preparing);
    for (const char* each : {"select 1", "select 2"}) co_await run_statement(core, each);
    co_await gyre::test::admit(core);
    sent_request request(core);
    core->execute(request, *held, gyre::test::as_texts(texts()));
    co_await request.wait();
    EXPECT_THAT(request.result().rows, ElementsAre(ElementsAre("held")));
  }(*this));
}

TEST_F(PostgresConnection, GoesOnPreparingWhenACallIsStopped) {
  run([](PostgresConnection& test) -> task<> {
    const auto core = test.connect();
    co_await run_statement(core, "select 1");
    gyre::inplace_stop_source source;
    auto stopped = gyre::as_task(
        gyre::stop_when(connection_core::prepare(core, "select 2"), source.get_token()));
    auto other = connection_core::prepare(core, "select 2");
    auto stopping = [](gyre::inplace_stop_source& stop_source) -> task<> {
      stop_source.request_stop();
      co_return;
    };
    auto all = gyre::when_all(error_of(std::move(stopped)), std::move(other), stopping(source));
    const auto [error, statement, done] = co_await std::move(all);
    EXPECT_EQ(error, std::errc::operation_canceled);
    EXPECT_EQ(statement->text(), "select 2");
    EXPECT_EQ(core->in_flight(), 0U);
  }(*this));
}

TEST_F(PostgresConnection, NoticesStaleStatements) {
  run([](PostgresConnection& test) -> task<> {
    const auto core = test.connect();
    co_await run_script(core, "create table t (n int)");
    const std::string text = "select * from t";
    co_await run_statement(core, text);
    for (const char* change : {"alter table t add column m int", "deallocate all"}) {
      co_await run_script(core, change);
      bool was_stale = false;
      try {
        co_await run_statement(core, text);
      } catch (const server_error& error) {
        was_stale = is_stale(error.message());
      }
      EXPECT_TRUE(was_stale) << change;
      const auto statement = core->find_prepared(text);
      core->forget_prepared(*statement);
      EXPECT_EQ(core->find_prepared(text), nullptr);
      const auto rows = co_await run_statement(core, text);
      EXPECT_EQ(rows.tag, "SELECT 0");
    }
    EXPECT_FALSE(is_stale({.sqlstate = "0A000", .routine = "other"}));
  }(*this));
}

// --- Messages that belong to no statement ---

struct told_messages final : connection_observer {
  void on_login(connection_core& connection) override {
    ++logins;
    connection.append_internal_script("listen news");
  }
  void on_notification(std::string_view channel, std::string_view payload,
                       std::int32_t process) noexcept override {
    notifications.push_back(std::string(channel).append("=").append(payload));
    EXPECT_GT(process, 0);
    arrival.set();
  }
  void on_notice(const server_message& notice) noexcept override {
    notices.push_back(notice.severity + ' ' + notice.message);
  }

  int logins = 0;
  std::vector<std::string> notifications;
  std::vector<std::string> notices;
  gyre::auto_reset_event arrival;
};

TEST_F(PostgresConnection, TellsNoticesAndNotifications) {
  run([](PostgresConnection& test) -> task<> {
    told_messages told;
    const auto core = test.connect({.observer = &told});
    co_await run_script(core, "do $$begin raise notice 'hello'; end$$");
    EXPECT_THAT(told.notices, ElementsAre("NOTICE hello"));
    const auto other = test.connect();
    co_await run_script(other, "notify news, 'first'");
    co_await told.arrival.wait();
    EXPECT_THAT(told.notifications, ElementsAre("news=first"));
    EXPECT_EQ(told.logins, 1);
    core->close();
  }(*this));
}

TEST_F(PostgresConnection, LogsInAgainIfItIsNeeded) {
  run([](PostgresConnection& test) -> task<> {
    told_messages told;
    const auto core = test.connect({.parameters = {{"application_name", "listener"}},
                                    .initial_delay = 1ms,
                                    .observer = &told});
    core->set_needed(true);
    core->connect_if_needed();
    co_await run_statement(core, "select 1");
    const auto other = test.connect();
    const auto killed = co_await run_script(
        other,
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = "
        "'listener'");
    EXPECT_THAT(killed.rows, SizeIs(1));
    while (told.notifications.empty()) co_await run_script(other, "notify news, 'again'");
    EXPECT_THAT(told.notifications, testing::Contains("news=again"));
    EXPECT_EQ(told.logins, 2);
    core->close();
  }(*this));
}

TEST_F(PostgresConnection, EndsWhenAScriptOfItsOwnFails) {
  run([](PostgresConnection& test) -> task<> {
    struct failing_observer final : connection_observer {
      void on_login(connection_core& connection) override {
        connection.append_internal_script("listn news");
      }
    } observer;
    const auto core = test.connect({.reconnects = false, .observer = &observer});
    const std::string text = co_await message_of(run_statement(core, "select pg_sleep(10)"));
    EXPECT_THAT(text, HasSubstr("listn"));
  }(*this));
}

// --- Transactions on a shared connection ---

TEST_F(PostgresConnection, EndsASharedConnectionWithAnOpenTransaction) {
  run([](PostgresConnection& test) -> task<> {
    const auto core = test.connect();
    co_await run_script(core, "create table t (n int)");
    co_await run_statement(core, "insert into t values (0)");
    auto both = gyre::when_all(message_of(run_script(core, "begin")),
                               error_of(run_statement(core, "insert into t values (0)")));
    const auto [begin, insert] = co_await std::move(both);
    EXPECT_THAT(begin, HasSubstr("left a transaction open"));
    EXPECT_EQ(insert, errc::connection_lost);
    const auto rows = co_await run_statement(core, "select n from t");
    EXPECT_THAT(rows.rows, ElementsAre(ElementsAre("0")));
    EXPECT_EQ(core->connection_number(), 2U);
  }(*this));
}

}  // namespace
}  // namespace connection_core_test

// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/client.hpp>

#include <gyre/base/detail/splitmix64.hpp>
#include <gyre/engines/postgres/client_test_support.hpp>
#include <gyre/io/error.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/tls/error.hpp>
#include <gyre/tls/tls_context.hpp>
#include <tests/support/failed_call.hpp>
#include <tests/support/tls_certificates.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

namespace postgres_client_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::postgres::client;
using gyre::postgres::client_options;
using gyre::postgres::errc;
using gyre::postgres::server_error;
using gyre::postgres::statement;
using gyre::postgres::transaction;
using gyre::postgres::test::wait_for_sleepers;
using gyre::test::calls::error_of;
using gyre::test::calls::message_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

struct PostgresClient : gyre::postgres::test::client_fixture {};

struct item {
  std::int64_t id;
  std::string name;
  std::optional<double> weight;

  bool operator==(const item&) const = default;
};

TEST_F(PostgresClient, QueriesRowsOfTuplesStructsAndSingleColumns) {
  run([](PostgresClient& test) -> task<> {
    client db = test.connect();
    co_await db.execute("create table item (id int8 primary key, name text, weight float8)");
    EXPECT_EQ(co_await db.execute("insert into item values ($1, $2, $3), ($4, $5, $6)", 1, "bolt",
                                  0.5, 2, "nut", std::nullopt),
              2U);
    const auto items = co_await db.query<item>("select id, name, weight from item order by id");
    EXPECT_THAT(items, ElementsAre(item{1, "bolt", 0.5}, item{2, "nut", std::nullopt}));
    const auto pairs = co_await db.query<std::pair<int, std::string>>(
        "select id, name from item where weight < $1", 1);
    EXPECT_THAT(pairs, ElementsAre(Pair(1, "bolt")));
    const std::string name =
        co_await db.query_one<std::string>("select name from item where id = $1", 2);
    EXPECT_EQ(name, "nut");
    const auto none =
        co_await db.query_optional<std::string>("select name from item where id = $1", 3);
    EXPECT_EQ(none, std::nullopt);
    EXPECT_EQ(co_await db.execute("update item set name = 'x'"), 2U);
    EXPECT_EQ(co_await db.execute("create index on item (name)"), 0U);
  }(*this));
}

// --- Errors ---

TEST_F(PostgresClient, ThrowsErrorsOfTheServerAndRemainsOfUse) {
  run([](PostgresClient& test) -> task<> {
    client db = test.connect();
    co_await db.execute("create table account (id int primary key, email text not null)");
    co_await db.execute("insert into account values (1, $1)", "a");
    bool was_thrown = false;
    try {
      co_await db.execute("insert into account values (1, $1)", "secret");
    } catch (const server_error& error) {
      was_thrown = true;
      EXPECT_EQ(error.code(), errc::unique_violation);
      EXPECT_EQ(error.sqlstate(), "23505");
      EXPECT_EQ(error.severity(), "ERROR");
      EXPECT_EQ(error.constraint(), "account_pkey");
      EXPECT_EQ(error.table(), "account");
      EXPECT_THAT(error.what(), HasSubstr("[insert into account values (1, $1)]"));
    }
    EXPECT_TRUE(was_thrown);
    EXPECT_EQ(co_await error_of(db.execute("insert into account values (2, $1)", nullptr)),
              errc::not_null_violation);
    EXPECT_EQ(co_await error_of(db.execute("selec 1")), errc::syntax_error);
    EXPECT_EQ(co_await error_of(db.execute("select 1 from nowhere")), errc::undefined_table);
    EXPECT_EQ(co_await error_of(db.query<int>("select 1/0")), errc::division_by_zero);
    EXPECT_EQ(co_await db.query_one<int>("select 1"), 1);
    EXPECT_EQ(db.metrics().shared, 1U);
  }(*this));
}

TEST_F(PostgresClient, ReportsErrorsOfTheCommitOfAStatement) {
  run([](PostgresClient& test) -> task<> {
    client db = test.connect();
    co_await db.execute_script(
        "create table parent (id int primary key);"
        "create table child (parent int references parent deferrable initially deferred)");
    EXPECT_EQ(co_await error_of(db.execute("insert into child values (7)")),
              errc::foreign_key_violation);
    EXPECT_EQ(co_await db.query_one<int>("select count(*) from child"), 0);
  }(*this));
}

TEST_F(PostgresClient, NamesWhatDoesNotFit) {
  run([](PostgresClient& test) -> task<> {
    client db = test.connect();
    EXPECT_EQ(co_await error_of(db.query<int>("select 1, 2")), errc::column_count);
    EXPECT_EQ(co_await error_of(db.query_one<int>("select 1 where false")), errc::no_rows);
    EXPECT_EQ(co_await error_of(db.query_one<int>("values (1), (2)")), errc::too_many_rows);
    EXPECT_EQ(co_await error_of(db.query_optional<int>("values (1), (2)")), errc::too_many_rows);
    EXPECT_EQ(co_await error_of(db.execute("select $1::int", 1, 2)), errc::argument_count);
    EXPECT_EQ(co_await error_of(db.execute("select $1::int")), errc::argument_count);
    EXPECT_THAT(co_await message_of(db.query<int>("select null::int as size")),
                testing::AllOf(HasSubstr("column 1 \"size\" (int4)"), HasSubstr("std::optional")));
    EXPECT_THAT(co_await message_of(db.query<std::int16_t>("select 70000 as size")),
                HasSubstr("column 1 \"size\" (int4): 70000"));
    EXPECT_THAT(co_await message_of(db.query<bool>("select 'x'::text as size")),
                HasSubstr("(text) as a bool"));
    EXPECT_THAT(co_await message_of(db.execute("select $1::int2", 70000)),
                HasSubstr("argument 1 (int2): 70000"));
    EXPECT_EQ(co_await db.query_one<int>("select 1"), 1);
    EXPECT_EQ(db.metrics().shared, 1U);
  }(*this));
}

TEST_F(PostgresClient, BoundsResults) {
  run([](PostgresClient& test) -> task<> {
    client db = test.connect();
    const statement large("select repeat('x', 1000) from generate_series(1, 1000)",
                          {.max_result = 10'000});
    EXPECT_EQ(co_await error_of(db.query<std::string>(large)), errc::result_too_large);
    const auto whole = co_await db.query<std::string>(large.text());
    EXPECT_EQ(whole.size(), 1000U);
  }(*this));
}

TEST_F(PostgresClient, RefusesWrongLoginsAndServersThatAreNotThere) {
  run([](PostgresClient& test) -> task<> {
    client_options wrong = test.options();
    wrong.user = "nobody";
    client db = test.connect(wrong);
    EXPECT_EQ(co_await error_of(db.execute("select 1")), errc::invalid_authorization);
    wrong = test.options();
    wrong.database = "nowhere";
    client other = test.connect(wrong);
    EXPECT_EQ(co_await error_of(other.execute("select 1")), errc::undefined_database);
    wrong = test.options();
    wrong.server = "unix:/nowhere/at/all";
    wrong.max_connect_attempts = 1;
    client none = test.connect(wrong);
    EXPECT_EQ(co_await error_of(none.execute("select 1")), std::errc::no_such_file_or_directory);
    EXPECT_EQ(co_await error_of(none.transaction([](transaction&) -> task<> { co_return; })),
              std::errc::no_such_file_or_directory);
  }(*this));
}

// --- Sharing ---

task<> increment(client& db, int times) {
  for (; times > 0; --times) co_await db.execute("update counter set count = count + $1", 1);
}

TEST_F(PostgresClient, SharesConnectionsAmongCoroutines) {
  run([](PostgresClient& test) -> task<> {
    client_options options = test.options();
    options.max_shared = 1;
    options.max_in_flight = 7;
    client db = test.connect(options);
    co_await db.execute("create table counter as select 0 as count");
    std::vector<task<>> all;
    for (int each = 0; each < 30; ++each) all.push_back(increment(db, 10));
    co_await gyre::when_all(std::move(all));
    EXPECT_EQ(co_await db.query_one<int>("select count from counter"), 300);
    EXPECT_EQ(db.metrics().shared, 1U);
    EXPECT_EQ(db.metrics().in_flight, 0U);
    EXPECT_EQ(db.metrics().open, 0U);
  }(*this));
}

task<> expect_echo(client& db, int number) {
  const auto row = co_await db.query_one<std::tuple<int, std::string>>(
      "select $1::int, $2::text", number, std::to_string(number));
  EXPECT_EQ(row, std::tuple(number, std::to_string(number)));
}

TEST_F(PostgresClient, OpensFurtherSharedConnectionsUnderLoad) {
  run([](PostgresClient& test) -> task<> {
    client_options options = test.options();
    options.max_shared = 3;
    options.pipeline_depth = 2;
    client db = test.connect(options);
    for (int round = 0; round < 20 || db.metrics().shared < 3; ++round) {
      std::vector<task<>> all;
      for (int each = 0; each < 50; ++each) all.push_back(expect_echo(db, each));
      co_await gyre::when_all(std::move(all));
    }
    EXPECT_EQ(db.metrics().shared, 3U);
  }(*this));
}

TEST_F(PostgresClient, PreparesAgainAfterTheResultsTypesHaveChanged) {
  run([](PostgresClient& test) -> task<> {
    client_options options = test.options();
    options.max_shared = 1;
    client db = test.connect(options);
    co_await db.execute("create table thing (id int)");
    co_await db.execute("insert into thing values (1)");
    const char* const text = "select * from thing";
    EXPECT_EQ(co_await db.query_one<int>(text), 1);
    co_await db.execute("alter table thing alter column id type text");
    EXPECT_EQ(co_await db.query_one<std::string>(text), "1");
    co_await db.execute("deallocate all");
    EXPECT_EQ(co_await db.query_one<std::string>(text), "1");
    EXPECT_EQ(db.metrics().shared, 1U);
  }(*this));
}

TEST_F(PostgresClient, KeepsNoStatementThatIsNotToBePrepared) {
  run([](PostgresClient& test) -> task<> {
    client_options options = test.options();
    options.max_shared = 1;
    client db = test.connect(options);
    for (int each = 0; each < 3; ++each) {
      EXPECT_EQ(co_await db.query_one<int>(statement("select 41 + $1", {.is_prepared = false}), 1),
                42);
    }
    EXPECT_EQ(co_await db.query_one<int>(
                  "select count(*) from pg_prepared_statements where statement like '%41%' and "
                  "statement not like '%pg_prepared%'"),
              0);
  }(*this));
}

// --- Limits ---

TEST_F(PostgresClient, TheServerStopsAStatementAfterItsLimit) {
  run([](PostgresClient& test) -> task<> {
    client_options options = test.options();
    options.max_shared = 1;
    client db = test.connect(options);
    const statement slow("select pg_sleep(60)", {.timeout = 50ms});
    EXPECT_EQ(co_await error_of(db.execute(slow)), std::errc::timed_out);
    // The connection is of use again, and its statements have no limit.
    EXPECT_EQ(co_await db.query_one<std::string>("show statement_timeout"), "0");
    // The statement gets the time that is left.
    const statement limited(
        "select current_setting('statement_timeout')::interval between '50 min' and '1 h'",
        {.timeout = 1h});
    EXPECT_TRUE(co_await db.query_one<bool>(limited));
    EXPECT_EQ(co_await db.query_one<std::string>("show statement_timeout"), "0");
    EXPECT_EQ(co_await db.query_one<int>("select count(*) from pg_stat_activity where state = "
                                         "'active' and query like '%pg_sleep%' and pid <> "
                                         "pg_backend_pid()"),
              0);
  }(*this));
}

TEST_F(PostgresClient, LimitsAllStatementsByDefault) {
  run([](PostgresClient& test) -> task<> {
    client_options options = test.options();
    options.statement_timeout = 1h;
    client db = test.connect(options);
    const char* const limit = "select current_setting('statement_timeout')";
    const statement unlimited(limit, {.timeout = gyre::duration::max()});
    const statement longer(limit, {.timeout = 2h});
    EXPECT_EQ(co_await db.query_one<std::string>(limit), "1h");
    EXPECT_EQ(co_await db.query_one<std::string>(unlimited), "0");
    EXPECT_EQ(co_await db.query_one<std::string>(limit), "1h");
    co_await db.transaction([&](transaction& tx) -> task<> {
      EXPECT_EQ(co_await tx.query_one<std::string>(limit), "1h");
      EXPECT_EQ(co_await tx.query_one<std::string>(longer), "2h");
      EXPECT_EQ(co_await tx.query_one<std::string>(limit), "1h");
      const auto code = co_await error_of(tx.savepoint([&](transaction& inner) -> task<> {
        EXPECT_EQ(co_await inner.query_one<std::string>(unlimited), "0");
        co_await inner.execute("select 1/0");
      }));
      EXPECT_EQ(code, errc::division_by_zero);
      EXPECT_EQ(co_await tx.query_one<std::string>(limit), "1h");
      EXPECT_EQ(co_await tx.query_one<std::string>(unlimited), "0");
    });
    const gyre::postgres::transaction_options own = {.statement_timeout = 3h};
    co_await db.transaction(
        [&](transaction& tx) -> task<> {
          EXPECT_EQ(co_await tx.query_one<std::string>(limit), "3h");
          EXPECT_EQ(co_await tx.query_one<std::string>(longer), "2h");
          EXPECT_EQ(co_await tx.query_one<std::string>(limit), "3h");
        },
        own);
  }(*this));
}

TEST_F(PostgresClient, AStopEndsACallAndCancelsItsStatement) {
  run([](PostgresClient& test) -> task<> {
    client_options options = test.options();
    options.max_shared = 1;
    client db = test.connect(options);
    for (int each = 0; each < 3; ++each) {
      EXPECT_EQ(co_await error_of([](client& target) -> task<> {
                  co_await gyre::with_timeout(target.execute("select pg_sleep(600)"), 20ms);
                }(db)),
                std::errc::timed_out);
      // A call without a connection would wait for ten minutes.
      EXPECT_EQ(co_await db.query_one<int>("select $1::int", each), each);
    }
    EXPECT_EQ(db.metrics().shared, 1U);
  }(*this));
}

TEST_F(PostgresClient, BoundsCallsThatWait) {
  run([](PostgresClient& test) -> task<> {
    client_options options = test.options();
    options.max_shared = 1;
    options.max_in_flight = 1;
    options.max_waiting = 2;
    client db = test.connect(options);
    co_await db.execute("select 1");
    const auto call = [](client& target) -> task<std::error_code> {
      co_return co_await error_of(target.execute("select 1"));
    };
    std::vector<task<std::error_code>> all;
    for (int each = 0; each < 6; ++each) all.push_back(call(db));
    const std::vector<std::error_code> errors = co_await gyre::when_all(std::move(all));
    EXPECT_EQ(std::ranges::count(errors, make_error_code(gyre::io::errc::waiting_limit)), 3);
    EXPECT_EQ(std::ranges::count(errors, std::error_code()), 3);
  }(*this));
}

// Awaits calls that are stopped at random moments, and expects that the others have their own
// results.
task<> expect_echoes(client& db, std::uint64_t seed, int count) {
  gyre::detail::splitmix64 random(seed);
  for (; count > 0; --count) {
    const auto number = static_cast<int>(random() % 1'000'000);
    const std::chrono::microseconds limit(random() % 400);
    const auto call = [](client& target, int expected, std::chrono::microseconds time) -> task<> {
      auto limited = gyre::with_timeout(target.query_one<int>("select $1::int", expected), time);
      EXPECT_EQ(co_await std::move(limited), expected);
    };
    const std::error_code error = co_await error_of(call(db, number, limit));
    if (error && error != std::errc::timed_out) ADD_FAILURE() << error.message();
  }
}

TEST_F(PostgresClient, CallsThatAreStoppedAtRandomMomentsHarmNobody) {
  run([](PostgresClient& test) -> task<> {
    client db = test.connect();
    std::vector<task<>> all;
    for (std::uint64_t each = 0; each < 8; ++each) all.push_back(expect_echoes(db, each, 100));
    co_await gyre::when_all(std::move(all));
    for (int each = 0; each < 20; ++each) {
      EXPECT_EQ(co_await db.query_one<int>("select $1::int", each), each);
    }
    // Statements of stopped calls may still be in flight.
    while (db.metrics().in_flight > 0) co_await gyre::sleep_for(1ms);
    EXPECT_EQ(db.metrics().waiting, 0U);
  }(*this));
}

// Counts the transactions that were committed, of those that are stopped at random moments.
task<> count_commits(client& db, std::uint64_t seed, int count, int& commits) {
  gyre::detail::splitmix64 random(seed);
  for (; count > 0; --count) {
    const std::chrono::microseconds limit(random() % 3000);
    const auto call = [](client& target, std::chrono::microseconds time) -> task<> {
      const auto body = [](transaction& tx) -> task<> {
        co_await tx.execute("insert into entry values ($1)", 1);
        co_await tx.execute("select pg_sleep(0.0005)");
      };
      co_await gyre::with_timeout(target.transaction(body), time);
    };
    const std::error_code error = co_await error_of(call(db, limit));
    if (!error) ++commits;
    if (error && error != std::errc::timed_out) ADD_FAILURE() << error.message();
  }
}

TEST_F(PostgresClient, TransactionsThatAreStoppedAtRandomMomentsAreWholeOrNothing) {
  run([](PostgresClient& test) -> task<> {
    client_options options = test.options();
    options.max_open = 3;
    client db = test.connect(options);
    co_await db.execute("create table entry (value int)");
    int commits = 0;
    std::vector<task<>> all;
    for (std::uint64_t each = 0; each < 6; ++each) {
      all.push_back(count_commits(db, each, 30, commits));
    }
    co_await gyre::when_all(std::move(all));
    EXPECT_EQ(co_await db.query_one<int>("select count(*) from entry"), commits);
    EXPECT_EQ(db.metrics().open, db.metrics().idle);
  }(*this));
}

// --- Encryption ---

TEST_F(PostgresClient, EncryptsAndVerifiesTheServer) {
  gyre::test::test_authority authority;
  const gyre::test::issued identity = authority.issue();
  gyre::test::postgres_settings settings;
  settings.has_tcp = true;
  settings.certificate = identity.certificate;
  settings.key = identity.key;
  settings.logins = {"hostssl all all 127.0.0.1/32 trust"};
  gyre::test::postgres_server encrypted(loop, settings);
  const std::string address = "localhost:" + std::to_string(encrypted.port());
  run([](PostgresClient& test, std::string host, std::string root) -> task<> {
    const char* const is_encrypted = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
    client db(test.loop, "postgresql://postgres@" + host + "?sslmode=require");
    EXPECT_TRUE(co_await db.query_one<bool>(is_encrypted));
    client_options options =
        client_options::parse("postgresql://postgres@" + host + "?sslmode=verify-full");
    client stranger = test.connect(options);
    EXPECT_EQ(co_await error_of(stranger.execute("select 1")),
              gyre::tls::errc::certificate_unknown_issuer);
    gyre::tls::client_options trusting;
    trusting.system_authorities = false;
    trusting.authorities = {gyre::tls::pem::text(root)};
    options.tls = gyre::tls::tls_context::client(trusting);
    client verified = test.connect(options);
    EXPECT_TRUE(co_await verified.query_one<bool>(is_encrypted));
    const bool in_transaction =
        co_await verified.transaction([is_encrypted](transaction& tx) -> task<bool> {
          co_return co_await tx.query_one<bool>(is_encrypted);
        });
    EXPECT_TRUE(in_transaction);
  }(*this, address, authority.certificate()));
}

// --- Lost connections ---

TEST_F(PostgresClient, ReconnectsAfterTheServerWasKilled) {
  run([](PostgresClient& test) -> task<> {
    client db = test.connect();
    EXPECT_EQ(co_await db.query_one<int>("select 1"), 1);
    co_await test.server.kill();
    co_await test.server.start_again();
    const statement text("select 2", {.is_idempotent = true});
    EXPECT_EQ(co_await db.query_one<int>(text), 2);
    const int three = co_await db.transaction(
        [](transaction& tx) -> task<int> { co_return co_await tx.query_one<int>("select 3"); });
    EXPECT_EQ(three, 3);
  }(*this));
}

TEST_F(PostgresClient, TellsThatAStatementMayHaveBeenExecuted) {
  run([](PostgresClient& test) -> task<> {
    client db = test.connect();
    co_await db.execute("select 1");
    client watcher = test.connect();
    auto both = gyre::when_all(error_of(db.execute("select pg_sleep(600)")),
                               [](PostgresClient& fixture, client& target) -> task<> {
                                 co_await wait_for_sleepers(target, 1);
                                 co_await fixture.server.kill();
                               }(test, watcher));
    const auto results = co_await std::move(both);
    EXPECT_EQ(std::get<0>(results), errc::connection_lost);
    EXPECT_EQ(std::get<0>(results), std::errc::connection_reset);
  }(*this));
}

TEST_F(PostgresClient, CloseEndsCallsOfEveryKind) {
  run([](PostgresClient& test) -> task<> {
    client db = test.connect();
    client watcher = test.connect();
    bool is_listening = false;
    auto all = gyre::when_all(
        error_of(db.execute("select pg_sleep(600)")),
        error_of(db.transaction(
            [](transaction& tx) -> task<> { co_await tx.execute("select pg_sleep(600)"); })),
        [](client& target) -> task<std::error_code> {
          auto session = co_await target.acquire_session();
          co_return co_await error_of(session.execute("select pg_sleep(600)"));
        }(db),
        [](client& target, bool& has_subscribed) -> task<bool> {
          auto news = co_await target.listen("news");
          has_subscribed = true;
          const auto none = co_await news.next();
          co_return none.has_value();
        }(db, is_listening),
        [](client& target, client& other, const bool& has_subscribed) -> task<> {
          co_await wait_for_sleepers(other, 3);
          while (!has_subscribed) co_await gyre::sleep_for(1ms);
          target.close();
        }(db, watcher, is_listening));
    const auto results = co_await std::move(all);
    EXPECT_EQ(std::get<0>(results), gyre::io::errc::closed);
    EXPECT_EQ(std::get<1>(results), gyre::io::errc::closed);
    EXPECT_EQ(std::get<2>(results), gyre::io::errc::closed);
    EXPECT_FALSE(std::get<3>(results));
    EXPECT_EQ(co_await error_of(db.execute("select 1")), gyre::io::errc::not_open);
    EXPECT_EQ(co_await error_of(db.listen("x")), gyre::io::errc::not_open);
  }(*this));
}

TEST_F(PostgresClient, AClientThatWasMovedFromFails) {
  run([](PostgresClient& test) -> task<> {
    client first = test.connect();
    client second = std::move(first);
    EXPECT_EQ(co_await second.query_one<int>("select 1"), 1);
    EXPECT_EQ(co_await error_of(first.execute("select 1")), gyre::io::errc::not_open);
    EXPECT_EQ(co_await error_of(first.acquire_session()), gyre::io::errc::not_open);
    EXPECT_EQ(first.metrics().shared, 0U);
    first = std::move(second);
    EXPECT_EQ(co_await first.query_one<int>("select 1"), 1);
  }(*this));
}

TEST_F(PostgresClient, RefusesOptionsThatMakeNoSense) {
  const auto refuses = [this](auto change) {
    client_options changed = options();
    change(changed);
    EXPECT_THROW(connect(changed), std::invalid_argument);
  };
  refuses([](client_options& each) { each.user.clear(); });
  refuses([](client_options& each) { each.max_shared = 0; });
  refuses([](client_options& each) { each.max_open = 0; });
  refuses([](client_options& each) { each.max_connect_attempts = 0; });
  refuses([](client_options& each) { each.statement_timeout = 0ms; });
  refuses([](client_options& each) { each.ping_interval = 0ms; });
}

}  // namespace
}  // namespace postgres_client_test

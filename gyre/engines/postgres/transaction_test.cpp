// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/transaction.hpp>

#include <gyre/engines/postgres/client_test_support.hpp>
#include <gyre/io/error.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/when_any.hpp>
#include <gyre/task/with_timeout.hpp>
#include <tests/support/failed_call.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

namespace postgres_transaction_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::postgres::client;
using gyre::postgres::client_options;
using gyre::postgres::errc;
using gyre::postgres::isolation;
using gyre::postgres::querier;
using gyre::postgres::statement;
using gyre::postgres::transaction;
using gyre::postgres::transaction_options;
using gyre::postgres::test::wait_for_sleepers;
using gyre::test::calls::error_of;
using testing::ElementsAre;
using testing::HasSubstr;

struct PostgresTransaction : gyre::postgres::test::client_fixture {
  static task<> make_table(querier& db) {
    co_await db.execute("create table counter (name text primary key, count int)");
    co_await db.execute("insert into counter values ('a', 0), ('b', 0)");
  }
  static task<std::vector<int>> counts(querier& db) {
    co_return co_await db.query<int>("select count from counter order by name");
  }
};

task<> add(querier& db, std::string name, int number) {
  co_await db.execute("update counter set count = count + $1 where name = $2", number, name);
}

TEST_F(PostgresTransaction, CommitsAllStatements) {
  run([](PostgresTransaction& test) -> task<> {
    client db = test.connect();
    co_await make_table(db);
    const std::string result = co_await db.transaction([&db](transaction& tx) -> task<std::string> {
      co_await add(tx, "a", 1);
      // Others do not see it yet.
      EXPECT_THAT(co_await counts(db), ElementsAre(0, 0));
      co_await add(tx, "b", 2);
      EXPECT_THAT(co_await counts(tx), ElementsAre(1, 2));
      co_return "done";
    });
    EXPECT_EQ(result, "done");
    EXPECT_THAT(co_await counts(db), ElementsAre(1, 2));
    EXPECT_EQ(db.metrics().open, 1U);
    EXPECT_EQ(db.metrics().idle, 1U);
    EXPECT_EQ(db.metrics().transactions, 1U);
  }(*this));
}

TEST_F(PostgresTransaction, RollsBackWhenTheBodyThrows) {
  run([](PostgresTransaction& test) -> task<> {
    client db = test.connect();
    co_await make_table(db);
    bool was_thrown = false;
    try {
      co_await db.transaction([](transaction& tx) -> task<> {
        co_await add(tx, "a", 1);
        throw std::runtime_error("no");
      });
    } catch (const std::runtime_error& error) {
      was_thrown = std::string(error.what()) == "no";
    }
    EXPECT_TRUE(was_thrown);
    EXPECT_THAT(co_await counts(db), ElementsAre(0, 0));
    // The connection was given back.
    EXPECT_EQ(db.metrics().idle, 1U);
    EXPECT_EQ(co_await error_of(db.transaction([](transaction& tx) -> task<> {
                co_await add(tx, "a", 1);
                co_await tx.execute("select 1/0");
              })),
              errc::division_by_zero);
    EXPECT_THAT(co_await counts(db), ElementsAre(0, 0));
    EXPECT_EQ(db.metrics().idle, 1U);
    EXPECT_EQ(db.metrics().open, 1U);
  }(*this));
}

TEST_F(PostgresTransaction, TellsThatAnIgnoredErrorHasUndoneIt) {
  run([](PostgresTransaction& test) -> task<> {
    client db = test.connect();
    co_await make_table(db);
    EXPECT_EQ(co_await error_of(db.transaction([](transaction& tx) -> task<> {
                co_await add(tx, "a", 1);
                EXPECT_EQ(co_await error_of(tx.execute("select 1/0")), errc::division_by_zero);
                EXPECT_EQ(co_await error_of(tx.execute("select 1")), errc::in_failed_transaction);
              })),
              errc::transaction_aborted);
    EXPECT_THAT(co_await counts(db), ElementsAre(0, 0));
    EXPECT_EQ(db.metrics().idle, 1U);
  }(*this));
}

TEST_F(PostgresTransaction, WithoutStatementsTellsTheServerNothing) {
  run([](PostgresTransaction& test) -> task<> {
    client db = test.connect();
    EXPECT_EQ(co_await db.transaction([](transaction&) -> task<int> { co_return 7; }), 7);
    EXPECT_EQ(db.metrics().idle, 1U);
  }(*this));
}

TEST_F(PostgresTransaction, HasItsIsolationAndMode) {
  run([](PostgresTransaction& test) -> task<> {
    client db = test.connect();
    const auto mode = [](transaction& tx) -> task<std::string> {
      co_return co_await tx.query_one<std::string>(
          "select current_setting('transaction_isolation') || ' ' || "
          "current_setting('transaction_read_only') || ' ' || "
          "current_setting('transaction_deferrable')");
    };
    EXPECT_EQ(co_await db.transaction(mode), "read committed off off");
    EXPECT_EQ(co_await db.transaction(mode, {.isolation = isolation::repeatable_read}),
              "repeatable read off off");
    EXPECT_EQ(co_await db.transaction(mode, {.isolation = isolation::serializable,
                                             .is_read_only = true,
                                             .is_deferrable = true}),
              "serializable on on");
    EXPECT_EQ(co_await error_of(db.transaction(
                  [](transaction& tx) -> task<> { co_await tx.execute("create table x ()"); },
                  {.is_read_only = true})),
              errc::read_only_transaction);
  }(*this));
}

TEST_F(PostgresTransaction, NestsSavepoints) {
  run([](PostgresTransaction& test) -> task<> {
    client db = test.connect();
    co_await make_table(db);
    co_await db.transaction([](transaction& tx) -> task<> {
      // The transaction begins within the savepoint.
      const int seven = co_await tx.savepoint([](transaction& inner) -> task<int> {
        co_await add(inner, "a", 1);
        co_return 7;
      });
      EXPECT_EQ(seven, 7);
      EXPECT_EQ(co_await error_of(tx.savepoint([](transaction& inner) -> task<> {
                  co_await add(inner, "b", 100);
                  co_await inner.savepoint([](transaction& innermost) -> task<> {
                    co_await add(innermost, "b", 100);
                    co_await innermost.execute("select 1/0");
                  });
                })),
                errc::division_by_zero);
      // The error has undone nothing else.
      co_await tx.savepoint([](transaction& inner) -> task<> {
        co_await add(inner, "b", 2);
        EXPECT_EQ(co_await error_of(inner.savepoint([](transaction& innermost) -> task<> {
                    co_await innermost.execute("select 1/0");
                  })),
                  errc::division_by_zero);
        EXPECT_THAT(co_await counts(inner), ElementsAre(1, 2));
      });
      co_await tx.savepoint([](transaction&) -> task<> { co_return; });
    });
    EXPECT_THAT(co_await counts(db), ElementsAre(1, 2));
    EXPECT_EQ(db.metrics().idle, 1U);
  }(*this));
}

TEST_F(PostgresTransaction, IsNotUsedWhileItsSavepointIsOpen) {
  run([](PostgresTransaction& test) -> task<> {
    client db = test.connect();
    bool was_refused = false;
    co_await db.transaction([&was_refused](transaction& tx) -> task<> {
      co_await tx.savepoint([&](transaction& inner) -> task<> {
        co_await inner.execute("select 1");
        try {
          co_await tx.execute("select 2");
        } catch (const std::logic_error&) {
          was_refused = true;
        }
      });
      co_await tx.execute("select 3");
    });
    EXPECT_TRUE(was_refused);
  }(*this));
}

TEST_F(PostgresTransaction, CallsThatOutliveItFail) {
  run([](PostgresTransaction& test) -> task<> {
    client db = test.connect();
    std::optional<task<std::uint64_t>> late;
    std::optional<task<std::uint64_t>> later;
    co_await db.transaction([&](transaction& tx) -> task<> {
      co_await tx.savepoint([&](transaction& inner) -> task<> {
        late.emplace(inner.execute("select 1"));
        co_return;
      });
      EXPECT_EQ(co_await error_of(std::move(*late)), errc::transaction_ended);
      later.emplace(tx.execute("select 1"));
    });
    EXPECT_EQ(co_await error_of(std::move(*later)), errc::transaction_ended);
  }(*this));
}

TEST_F(PostgresTransaction, RunsAgainAfterASerializationFailure) {
  run([](PostgresTransaction& test) -> task<> {
    client db = test.connect();
    co_await make_table(db);
    constexpr int workers = 8;
    // Each reads, and writes what it has read plus one: without repetition additions are lost.
    const auto increment = [](client& target) -> task<> {
      co_await target.transaction(
          [](transaction& tx) -> task<> {
            const int count =
                co_await tx.query_one<int>("select count from counter where name = 'a'");
            co_await tx.execute("update counter set count = $1 where name = 'a'", count + 1);
          },
          {.isolation = isolation::serializable, .max_attempts = 1000});
    };
    for (int round = 0; round < 200 && db.metrics().retries == 0; ++round) {
      co_await db.execute("update counter set count = 0");
      std::vector<task<>> all;
      for (int each = 0; each < workers; ++each) all.push_back(increment(db));
      co_await gyre::when_all(std::move(all));
      EXPECT_THAT(co_await counts(db), ElementsAre(workers, 0));
    }
    EXPECT_GT(db.metrics().retries, 0U);
  }(*this));
}

TEST_F(PostgresTransaction, GivesUpAfterItsAttempts) {
  run([](PostgresTransaction& test) -> task<> {
    client db = test.connect();
    int runs = 0;
    EXPECT_EQ(co_await error_of(db.transaction(
                  [&runs](transaction& tx) -> task<> {
                    ++runs;
                    co_await tx.execute(
                        "do $$ begin raise exception 'x' using errcode = '40001'; end $$");
                  },
                  {.max_attempts = 3})),
              errc::serialization_failure);
    EXPECT_EQ(runs, 3);
    EXPECT_EQ(db.metrics().idle, 1U);
    bool was_refused = false;
    try {
      co_await db.transaction([](transaction&) -> task<> { co_return; }, {.max_attempts = 0});
    } catch (const std::invalid_argument&) {
      was_refused = true;
    }
    EXPECT_TRUE(was_refused);
  }(*this));
}

TEST_F(PostgresTransaction, RunsAgainAfterADeadlock) {
  run([](PostgresTransaction& test) -> task<> {
    client_options options = test.options();
    options.settings = {{"deadlock_timeout", "10ms"}};
    client db = test.connect(options);
    co_await make_table(db);
    gyre::manual_reset_event first_has_a;
    gyre::manual_reset_event second_has_b;
    const auto both_rows = [](client& target, std::string first, std::string second,
                              gyre::manual_reset_event& own_event,
                              gyre::manual_reset_event& other) -> task<> {
      co_await target.transaction([&](transaction& tx) -> task<> {
        co_await add(tx, first, 1);
        own_event.set();
        co_await other.wait();
        co_await add(tx, second, 1);
      });
    };
    auto both = gyre::when_all(both_rows(db, "a", "b", first_has_a, second_has_b),
                               both_rows(db, "b", "a", second_has_b, first_has_a));
    co_await std::move(both);
    EXPECT_THAT(co_await counts(db), ElementsAre(2, 2));
    EXPECT_GE(db.metrics().retries, 1U);
  }(*this));
}

TEST_F(PostgresTransaction, AStopRollsBackAndTheConnectionIsUsedAgain) {
  run([](PostgresTransaction& test) -> task<> {
    client_options options = test.options();
    options.max_open = 1;
    client db = test.connect(options);
    client watcher = test.connect();
    co_await make_table(db);
    const auto process = [](transaction& tx) -> task<int> {
      co_return co_await tx.query_one<int>("select pg_backend_pid()");
    };
    const int pid = co_await db.transaction(process);
    for (int each = 0; each < 3; ++each) {
      const auto slow = [](transaction& tx) -> task<> {
        co_await add(tx, "a", 1);
        co_await tx.execute("select pg_sleep(600)");
      };
      auto first = gyre::when_any(db.transaction(slow), wait_for_sleepers(watcher, 1));
      const auto result = co_await std::move(first);
      EXPECT_EQ(result.index, 1U);
      EXPECT_EQ(db.metrics().idle, 1U);
      EXPECT_EQ(co_await db.transaction(process), pid);
    }
    EXPECT_THAT(co_await counts(db), ElementsAre(0, 0));
    EXPECT_EQ(db.metrics().open, 1U);
  }(*this));
}

TEST_F(PostgresTransaction, FailsAfterAStatementThatWasGivenUp) {
  run([](PostgresTransaction& test) -> task<> {
    client db = test.connect();
    client watcher = test.connect();
    co_await make_table(db);
    const auto code = co_await error_of(db.transaction([&watcher](transaction& tx) -> task<> {
      co_await add(tx, "a", 1);
      // The server cancels it, which is an error of the transaction.
      auto first =
          gyre::when_any(tx.execute("select pg_sleep(600)"), wait_for_sleepers(watcher, 1));
      const auto result = co_await std::move(first);
      EXPECT_EQ(result.index, 1U);
      co_await tx.execute("select 1");
    }));
    EXPECT_EQ(code, errc::in_failed_transaction);
    EXPECT_THAT(co_await counts(db), ElementsAre(0, 0));
  }(*this));
}

TEST_F(PostgresTransaction, RunsAgainIfTheConnectionWasLostBeforeCommit) {
  run([](PostgresTransaction& test) -> task<> {
    client db = test.connect();
    co_await make_table(db);
    int runs = 0;
    co_await db.transaction([&](transaction& tx) -> task<> {
      co_await add(tx, "a", 1);
      if (++runs > 1) co_return;
      const int pid = co_await tx.query_one<int>("select pg_backend_pid()");
      co_await db.execute("select pg_terminate_backend($1, 10000)", pid);
      EXPECT_EQ(co_await error_of(tx.execute("select 1")), errc::connection_lost);
      co_await tx.execute("select 2");
    });
    EXPECT_EQ(runs, 2);
    EXPECT_THAT(co_await counts(db), ElementsAre(1, 0));
  }(*this));
}

TEST_F(PostgresTransaction, TellsThatItMayBeCommittedIfTheReplyIsLost) {
  run([](PostgresTransaction& test) -> task<> {
    client db = test.connect();
    client watcher = test.connect();
    // A deferred trigger keeps COMMIT busy.
    co_await db.execute_script(
        "create table slow (id int);"
        "create function wait() returns trigger language plpgsql as "
        "$$ begin perform pg_sleep(600); return null; end $$;"
        "create constraint trigger slow after insert on slow deferrable initially deferred "
        "for each row execute function wait()");
    int runs = 0;
    auto both = gyre::when_all(error_of(db.transaction([&runs](transaction& tx) -> task<> {
                                 ++runs;
                                 co_await tx.execute("insert into slow values (1)");
                               })),
                               [](PostgresTransaction& fixture, client& target) -> task<> {
                                 co_await wait_for_sleepers(target, 1);
                                 co_await fixture.server.kill();
                               }(test, watcher));
    const auto results = co_await std::move(both);
    EXPECT_EQ(std::get<0>(results), errc::commit_unknown);
    EXPECT_EQ(runs, 1);
  }(*this));
}

TEST_F(PostgresTransaction, LimitsTheTimeOfCommit) {
  run([](PostgresTransaction& test) -> task<> {
    client db = test.connect();
    co_await db.execute_script(
        "create table slow (id int);"
        "create function wait() returns trigger language plpgsql as "
        "$$ begin perform pg_sleep(600); return null; end $$;"
        "create constraint trigger slow after insert on slow deferrable initially deferred "
        "for each row execute function wait()");
    const auto code = co_await error_of(db.transaction(
        [](transaction& tx) -> task<> { co_await tx.execute("insert into slow values (1)"); },
        {.commit_timeout = 50ms}));
    EXPECT_EQ(code, errc::commit_unknown);
    EXPECT_EQ(co_await db.query_one<int>("select 1"), 1);
  }(*this));
}

TEST_F(PostgresTransaction, WaitsForAFreeConnection) {
  run([](PostgresTransaction& test) -> task<> {
    client_options options = test.options();
    options.max_open = 2;
    client db = test.connect(options);
    co_await make_table(db);
    std::vector<task<>> all;
    for (int each = 0; each < 20; ++each) {
      all.push_back(db.transaction([](transaction& tx) -> task<> { co_await add(tx, "a", 1); }));
    }
    co_await gyre::when_all(std::move(all));
    EXPECT_THAT(co_await counts(db), ElementsAre(20, 0));
    EXPECT_EQ(db.metrics().open, 2U);
  }(*this));
}

TEST_F(PostgresTransaction, SendsStatementsOfSeveralCoroutinesInOrder) {
  run([](PostgresTransaction& test) -> task<> {
    client db = test.connect();
    co_await make_table(db);
    co_await db.transaction([](transaction& tx) -> task<> {
      auto all = gyre::when_all(add(tx, "a", 1), add(tx, "b", 2), add(tx, "a", 4));
      co_await std::move(all);
    });
    EXPECT_THAT(co_await counts(db), ElementsAre(5, 2));
  }(*this));
}

TEST_F(PostgresTransaction, ASessionKeepsItsStateAndTheNextHasNone) {
  run([](PostgresTransaction& test) -> task<> {
    client_options options = test.options();
    options.max_open = 1;
    client db = test.connect(options);
    int pid = 0;
    {
      auto own = co_await db.acquire_session();
      co_await own.execute("create temporary table mine (id int)");
      co_await own.execute("set application_name = 'mine'");
      EXPECT_EQ(co_await own.query_one<std::string>("show application_name"), "mine");
      pid = co_await own.query_one<int>("select pg_backend_pid()");
      co_await own.execute("begin");
      co_await own.execute("insert into mine values (1)");
      EXPECT_EQ(co_await own.query_one<int>("select count(*) from mine"), 1);
    }
    auto next = co_await db.acquire_session();
    EXPECT_NE(co_await next.query_one<int>("select pg_backend_pid()"), pid);
    EXPECT_EQ(co_await next.query_one<std::string>("show application_name"), "gyre");
    EXPECT_EQ(co_await error_of(next.execute("select * from mine")), errc::undefined_table);
  }(*this));
}

TEST_F(PostgresTransaction, ASessionNeverContinuesOnAnotherConnection) {
  run([](PostgresTransaction& test) -> task<> {
    client db = test.connect();
    auto own = co_await db.acquire_session();
    const int pid = co_await own.query_one<int>("select pg_backend_pid()");
    co_await db.execute("select pg_terminate_backend($1, 10000)", pid);
    EXPECT_EQ(co_await error_of(own.execute("select 1")), errc::connection_lost);
    EXPECT_EQ(co_await error_of(own.execute("select 1")), errc::connection_lost);
    EXPECT_EQ(co_await error_of(own.execute("select new_text()")), errc::connection_lost);
    EXPECT_EQ(co_await error_of(own.execute_script("select 1")), errc::connection_lost);
  }(*this));
}

TEST_F(PostgresTransaction, RunsScripts) {
  run([](PostgresTransaction& test) -> task<> {
    client db = test.connect();
    co_await db.execute_script("create table one (id int); insert into one values (1), (2)");
    EXPECT_EQ(co_await db.query_one<int>("select count(*) from one"), 2);
    EXPECT_EQ(co_await error_of(db.execute_script("delete from one; select 1/0")),
              errc::division_by_zero);
    EXPECT_EQ(co_await db.query_one<int>("select count(*) from one"), 2);
    EXPECT_EQ(co_await error_of(db.transaction([](transaction& tx) -> task<> {
                co_await tx.execute_script("delete from one; insert into one values (3)");
                EXPECT_EQ(co_await tx.query_one<int>("select count(*) from one"), 1);
                co_await tx.execute("select 1/0");
              })),
              errc::division_by_zero);
    EXPECT_EQ(co_await db.query_one<int>("select count(*) from one"), 2);
  }(*this));
}

}  // namespace
}  // namespace postgres_transaction_test

// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/batch.hpp>

#include <gyre/engines/postgres/client_test_support.hpp>
#include <gyre/io/error.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/when_any.hpp>
#include <gyre/task/with_timeout.hpp>
#include <tests/support/failed_call.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <random>
#include <ranges>
#include <stdexcept>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

namespace postgres_batch_test {
namespace {

using namespace std::chrono_literals;
using gyre::async_generator;
using gyre::task;
using gyre::postgres::batch;
using gyre::postgres::batch_error;
using gyre::postgres::client;
using gyre::postgres::client_options;
using gyre::postgres::errc;
using gyre::postgres::querier;
using gyre::postgres::session;
using gyre::postgres::statement;
using gyre::postgres::transaction;
using gyre::test::calls::error_of;
using gyre::test::calls::message_of;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr const char* insert = "insert into item values ($1, $2)";
using item = std::tuple<int, std::string>;

struct PostgresBatch : gyre::postgres::test::client_fixture {
  static task<> make_table(querier& db) {
    co_await db.execute("create table item (id int primary key, name text)");
  }
  static task<std::int64_t> count(querier& db) {
    co_return co_await db.query_one<std::int64_t>("select count(*) from item");
  }
};

std::vector<item> items(int size) {
  std::vector<item> made;
  for (int id = 0; id < size; ++id) made.emplace_back(id, "name");
  return made;
}

// Two events: rows up to one were taken, and more may be given.
struct pause {
  explicit pause(int id) noexcept : waiting(id) {}

  const int waiting;
  gyre::manual_reset_event reached;
  gyre::manual_reset_event may_continue;
};
async_generator<item> items_with(int size, pause& interruption) {
  for (int id = 0; id < size; ++id) {
    if (id == interruption.waiting) {
      interruption.reached.set();
      co_await interruption.may_continue.wait();
    }
    co_yield item(id, "name");
  }
}

async_generator<item> failing_items(int size) {
  for (int id = 0; id < size; ++id) co_yield item(id, "name");
  throw std::runtime_error("no more");
}

// The index that a batch_error of the call has, and its code.
task<std::pair<std::size_t, std::error_code>> failure_of(task<> call) {
  try {
    co_await std::move(call);
  } catch (const batch_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("at index " + std::to_string(error.index())));
    co_return std::pair(error.index(), error.code());
  }
  ADD_FAILURE() << "no batch_error";
  co_return std::pair(std::size_t{0}, std::error_code());
}

template <class Rows>
task<> insert_many(querier& db, Rows& rows) {
  const auto counts = co_await db.execute_many(insert, rows);
  EXPECT_THAT(counts, Each(1U));
}

TEST_F(PostgresBatch, GivesTheResultOfEachStatement) {
  run([](PostgresBatch& test) -> task<> {
    client db = test.connect();
    co_await make_table(db);
    batch work;
    const auto first = work.execute(insert, 1, "bolt");
    const auto others = work.execute("insert into item values (2, 'nut'), (3, $1)", "screw");
    const auto names = work.query<item>("select * from item where id >= $1 order by id", 2);
    const auto one = work.query_one<std::string>("select name from item where id = $1", 1);
    const auto none = work.query_optional<int>("select id from item where name = $1", "washer");
    auto empty = work.query<int>("select 1 where false");
    EXPECT_EQ(work.size(), 6U);
    EXPECT_THROW(static_cast<void>(one.get()), std::logic_error);
    co_await db.execute_batch(work);
    EXPECT_EQ(first.get(), 1U);
    EXPECT_EQ(others.get(), 2U);
    EXPECT_THAT(names.get(), ElementsAre(item(2, "nut"), item(3, "screw")));
    EXPECT_EQ(one.get(), "bolt");
    EXPECT_EQ(none.get(), std::nullopt);
    EXPECT_THAT(empty.take(), SizeIs(0));
    EXPECT_EQ(co_await count(db), 3);
    // The batch has given its connection back to the client.
    EXPECT_EQ(db.metrics().idle, 1U);

    work.clear();
    EXPECT_TRUE(work.empty());
    co_await db.execute_batch(work);
    const auto deleted = work.execute("delete from item");
    co_await db.execute_batch(work);
    EXPECT_EQ(deleted.get(), 3U);
    co_await db.execute_batch(work);
    EXPECT_EQ(deleted.get(), 0U);
    EXPECT_EQ(db.metrics().open, 1U);
  }(*this));
}

TEST_F(PostgresBatch, ExecutesAStatementForEachRow) {
  run([](PostgresBatch& test) -> task<> {
    client db = test.connect();
    co_await make_table(db);
    EXPECT_THAT(co_await db.execute_many(insert, items(3)), ElementsAre(1U, 1U, 1U));
    const std::vector<int> limits = {1, 0, 5};
    EXPECT_THAT(co_await db.execute_many("update item set name = 'x' where id < $1", limits),
                ElementsAre(1U, 0U, 3U));
    EXPECT_THAT(co_await db.execute_many(insert, std::vector<item>()), SizeIs(0));
    pause ready(-1);
    EXPECT_EQ(co_await error_of(db.execute_many(insert, items_with(3, ready))),
              errc::unique_violation);
    co_await db.execute("delete from item");
    EXPECT_THAT(co_await db.execute_many(insert, items_with(1000, ready)), SizeIs(1000));
    EXPECT_EQ(co_await count(db), 1000);
  }(*this));
}

TEST_F(PostgresBatch, AnErrorUndoesAllAndNamesTheIndex) {
  run([](PostgresBatch& test) -> task<> {
    client db = test.connect();
    co_await make_table(db);
    batch work;
    for (int id = 0; id < 10; ++id) work.execute(insert, id, "name");
    const auto divided = work.query<int>("select 1 / $1", 0);
    work.execute(insert, 11, "name");
    const auto [index, code] = co_await failure_of(db.execute_batch(work));
    EXPECT_EQ(index, 10U);
    EXPECT_EQ(code, errc::division_by_zero);
    EXPECT_THROW(static_cast<void>(divided.get()), std::logic_error);
    EXPECT_EQ(co_await count(db), 0);
    EXPECT_EQ(db.metrics().idle, 1U);

    // The error comes while executions are being sent.
    std::vector<item> rows = items(50'000);
    std::get<0>(rows[777]) = 776;
    const auto [row, violation] = co_await failure_of(insert_many(db, rows));
    EXPECT_EQ(row, 777U);
    EXPECT_EQ(violation, errc::unique_violation);
    EXPECT_EQ(co_await count(db), 0);
    EXPECT_EQ(db.metrics().open, 1U);
  }(*this));
}

TEST_F(PostgresBatch, AnArgumentThatCannotBeSentUndoesAll) {
  run([](PostgresBatch& test) -> task<> {
    client db = test.connect();
    co_await db.execute("create table item (id smallint, name text)");
    for (const int size : {10, 100'000}) {
      const auto numbers =
          std::views::iota(32'767 - size, 32'769) |
          std::views::transform([](int id) { return std::tuple(id < 0 ? 0 : id); });
      auto inserting = db.execute_many("insert into item values ($1)", numbers);
      const std::string message = co_await message_of(std::move(inserting));
      EXPECT_THAT(message, HasSubstr("at index " + std::to_string(size + 1)));
      EXPECT_EQ(co_await count(db), 0);
    }
    batch work;
    work.execute("insert into item values ($1)", 1);
    work.execute("insert into item values ($1, $2)", 1);
    EXPECT_EQ(co_await error_of(db.execute_batch(work)), errc::argument_count);
    work.clear();
    work.execute("insert into item values ($1)", 1);
    work.query<std::tuple<int, int>>("select 1");
    EXPECT_EQ(co_await error_of(db.execute_batch(work)), errc::column_count);
    work.clear();
    work.execute("insert into item values ($1)", 1);
    work.query<int>("select null::int");
    work.execute("insert into item values ($1)", 1);
    EXPECT_THAT(co_await message_of(db.execute_batch(work)), HasSubstr("at index 1"));
    work.clear();
    work.execute("insert into item values ($1)", 1);
    work.execute("no statement");
    EXPECT_EQ(co_await error_of(db.execute_batch(work)), errc::syntax_error);
  }(*this));
}

TEST_F(PostgresBatch, AGeneratorThatFailsUndoesAll) {
  run([](PostgresBatch& test) -> task<> {
    client db = test.connect();
    co_await make_table(db);
    session own = co_await db.acquire_session();
    for (const int size : {10, 20'000}) {
      bool was_thrown = false;
      try {
        co_await own.execute_many(insert, failing_items(size));
      } catch (const std::runtime_error&) {
        was_thrown = true;
      }
      EXPECT_TRUE(was_thrown);
      EXPECT_EQ(co_await count(own), 0);
    }
  }(*this));
}

// Each end would wait for the other to read, if the client did not read while it sends.
TEST_F(PostgresBatch, ReadsWhileItSends) {
  run([](PostgresBatch& test) -> task<> {
    client_options options = test.options();
    options.max_result = std::size_t{1} << 30;
    client db = test.connect(options);
    batch work;
    const std::string large(std::size_t{1} << 20, 'x');
    std::vector<gyre::postgres::batch_result<std::string>> texts;
    for (int each = 0; each < 40; ++each) {
      texts.push_back(work.query_one<std::string>("select $1::text", large));
    }
    co_await db.execute_batch(work);
    for (const auto& each : texts) EXPECT_EQ(each.get().size(), large.size());

    work.clear();
    std::vector<gyre::postgres::batch_result<int>> numbers;
    for (int each = 0; each < 100'000; ++each) {
      numbers.push_back(work.query_one<int>("select $1::int", each));
    }
    co_await db.execute_batch(work);
    bool are_equal = true;
    for (int each = 0; each < 100'000; ++each) {
      are_equal = are_equal && numbers[static_cast<std::size_t>(each)].get() == each;
    }
    EXPECT_TRUE(are_equal);
  }(*this));
}

TEST_F(PostgresBatch, LimitsTheResult) {
  run([](PostgresBatch& test) -> task<> {
    client_options options = test.options();
    options.max_result = 1000;
    client db = test.connect(options);
    co_await make_table(db);
    batch work;
    work.execute(insert, 1, "name");
    for (int each = 0; each < 3; ++each) work.query<std::string>("select repeat('x', 400)");
    EXPECT_EQ(co_await error_of(db.execute_batch(work)), errc::result_too_large);
    batch few;
    few.query<int>("select generate_series(1, 3)");
    const auto row = few.query_one<int>("select generate_series(1, 3)");
    const auto none = few.query_one<int>("select 1 where false");
    co_await db.execute_batch(few);
    const auto error_of_row = [](const auto& result) -> std::error_code {
      try {
        static_cast<void>(result.get());
      } catch (const std::system_error& error) {
        return error.code();
      }
      return {};
    };
    EXPECT_EQ(error_of_row(row), errc::too_many_rows);
    EXPECT_EQ(error_of_row(none), errc::no_rows);
  }(*this));
}

TEST_F(PostgresBatch, IsAPartOfATransaction) {
  run([](PostgresBatch& test) -> task<> {
    client db = test.connect();
    co_await make_table(db);
    co_await db.transaction([&db](transaction& tx) -> task<> {
      EXPECT_THAT(co_await tx.execute_many(insert, items(3000)), SizeIs(3000));
      EXPECT_EQ(co_await count(tx), 3000);
      EXPECT_EQ(co_await count(db), 0);
      auto failing = tx.savepoint([](transaction& inner) -> task<> {
        batch work;
        work.execute("delete from item");
        work.execute(insert, 1, "bolt");
        work.execute(insert, 1, "nut");
        co_await inner.execute_batch(work);
      });
      EXPECT_EQ(co_await error_of(std::move(failing)), errc::unique_violation);
      EXPECT_EQ(co_await count(tx), 3000);
    });
    EXPECT_EQ(co_await count(db), 3000);
    auto failing = db.transaction([](transaction& tx) -> task<> {
      co_await tx.execute("delete from item");
      EXPECT_EQ(co_await error_of(tx.execute_many(insert, items(3001) | std::views::reverse)),
                std::error_code());
      auto repeated = tx.execute_many(insert, items(1));
      EXPECT_EQ(co_await error_of(std::move(repeated)), errc::unique_violation);
      EXPECT_EQ(co_await error_of(tx.execute("select 1")), errc::in_failed_transaction);
    });
    EXPECT_EQ(co_await error_of(std::move(failing)), errc::transaction_aborted);
    EXPECT_EQ(co_await count(db), 3000);
  }(*this));
}

TEST_F(PostgresBatch, RefusesOtherStatementsOfItsTransaction) {
  run([](PostgresBatch& test) -> task<> {
    client db = test.connect();
    co_await make_table(db);
    co_await db.transaction([](transaction& tx) -> task<> {
      const auto reading = [](transaction& used) -> async_generator<item> {
        for (int id = 0; id < 5000; ++id) co_yield item(id, "name");
        bool was_refused = false;
        try {
          co_await used.execute("select 1");
        } catch (const std::logic_error&) {
          was_refused = true;
        }
        EXPECT_TRUE(was_refused);
      };
      EXPECT_THAT(co_await tx.execute_many(insert, reading(tx)), SizeIs(5000));
      EXPECT_EQ(co_await count(tx), 5000);
    });
  }(*this));
}

// Stopped before all was sent, it has no effect, and its connection remains of use.
TEST_F(PostgresBatch, AStopInTheMiddleUndoesAll) {
  run([](PostgresBatch& test) -> task<> {
    client db = test.connect();
    co_await make_table(db);
    session own = co_await db.acquire_session();
    // The stop comes before anything is sent, and after parts of the batch were sent.
    for (const int waiting : {10, 20'000}) {
      pause middle(waiting);
      auto inserting = gyre::when_any(own.execute_many(insert, items_with(30'000, middle)),
                                      middle.reached.wait());
      co_await std::move(inserting);
      EXPECT_EQ(co_await count(own), 0);

      auto failing = db.transaction([waiting](transaction& tx) -> task<> {
        pause inner(waiting);
        auto stopped = gyre::when_any(tx.execute_many(insert, items_with(30'000, inner)),
                                      inner.reached.wait());
        co_await std::move(stopped);
        co_await tx.execute("select 1");
      });
      EXPECT_EQ(co_await error_of(std::move(failing)),
                waiting == 10 ? std::error_code() : errc::in_failed_transaction);
      EXPECT_EQ(co_await count(db), 0);
    }
  }(*this));
}

TEST_F(PostgresBatch, StopsAtAnyMoment) {
  run([](PostgresBatch& test) -> task<> {
    client db = test.connect();
    co_await make_table(db);
    session own = co_await db.acquire_session();
    const std::vector<item> rows = items(3000);
    std::minstd_rand random(7);
    std::size_t completed = 0;
    for (int round = 0; round < 60; ++round) {
      const std::chrono::microseconds limit{random() % 30'000};
      const bool is_own = round % 2 == 0;
      querier& used = is_own ? static_cast<querier&>(own) : db;
      auto inserting =
          gyre::as_expected(gyre::with_timeout(used.execute_many(insert, rows), limit));
      const auto outcome = co_await std::move(inserting);
      if (outcome) ++completed;
      const std::int64_t stored = co_await count(used);
      // A connection that was closed may be busy for a moment longer: only `own` has one order.
      if (is_own) {
        EXPECT_TRUE(stored == 0 || stored == 3000) << stored;
        EXPECT_TRUE(!outcome || stored == 3000);
      }
      co_await own.execute("delete from item");
      EXPECT_EQ(co_await own.query_one<int>("select $1::int", round), round);
    }
    RecordProperty("completed", static_cast<int>(completed));
  }(*this));
}

TEST_F(PostgresBatch, IsExecutedAgainWhenATableHasChanged) {
  run([](PostgresBatch& test) -> task<> {
    client db = test.connect();
    co_await make_table(db);
    batch work;
    work.execute("insert into item values (1, 'bolt') on conflict do nothing");
    const auto ids = work.query<std::int64_t>("select id from item");
    co_await db.execute_batch(work);
    co_await db.execute("alter table item alter column id type bigint");
    co_await db.execute_batch(work);
    EXPECT_THAT(ids.get(), ElementsAre(1));
    EXPECT_EQ(db.metrics().open, 1U);
    // In a transaction the error remains, and names the statement.
    auto failing = db.transaction([&work](transaction& tx) -> task<> {
      co_await tx.execute("alter table item alter column id type int");
      co_await tx.execute_batch(work);
    });
    EXPECT_EQ(co_await error_of(std::move(failing)), errc::feature_not_supported);
  }(*this));
}

TEST_F(PostgresBatch, TheServerLimitsTheTimeOfEachStatement) {
  run([](PostgresBatch& test) -> task<> {
    client db = test.connect();
    const statement slow("select pg_sleep($1)", {.timeout = 50ms});
    const std::vector<double> seconds = {0, 0, 1000};
    const auto [index, code] = co_await failure_of(
        [](client& used, const statement& text, const std::vector<double>& times) -> task<> {
          co_await used.execute_many(text, times);
        }(db, slow, seconds));
    EXPECT_EQ(index, 2U);
    EXPECT_EQ(code, errc::statement_timeout);
    EXPECT_EQ(co_await db.query_one<int>("select 1"), 1);
  }(*this));
}

TEST_F(PostgresBatch, EndsWithItsConnection) {
  run([](PostgresBatch& test) -> task<> {
    client db = test.connect();
    co_await make_table(db);
    batch work;
    work.execute(insert, 1, "name");
    work.execute("select pg_terminate_backend(pg_backend_pid())");
    EXPECT_EQ(co_await error_of(db.execute_batch(work)), errc::connection_lost);
    work.clear();
    work.execute("copy item from stdin");
    EXPECT_EQ(co_await error_of(db.execute_batch(work)), errc::connection_lost);
    EXPECT_EQ(co_await count(db), 0);
    pause middle(20'000);
    auto closing = [](client& used, pause& interruption) -> task<> {
      co_await interruption.reached.wait();
      used.close();
      interruption.may_continue.set();
    };
    auto both = gyre::when_all(error_of(db.execute_many(insert, items_with(30'000, middle))),
                               closing(db, middle));
    const auto [error, done] = co_await std::move(both);
    EXPECT_EQ(error, gyre::io::errc::closed);
    EXPECT_EQ(co_await error_of(db.execute_batch(work)), gyre::io::errc::not_open);
  }(*this));
}

}  // namespace
}  // namespace postgres_batch_test

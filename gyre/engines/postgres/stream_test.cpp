// SPDX-License-Identifier: Apache-2.0
// Streams, copies and notifications of a client of PostgreSQL.
#include <gyre/engines/postgres/querier.hpp>

#include <gyre/engines/postgres/client_test_support.hpp>
#include <gyre/io/error.hpp>
#include <gyre/task/async_generator.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>
#include <tests/support/failed_call.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace postgres_stream_test {
namespace {

using namespace std::chrono_literals;
using gyre::async_generator;
using gyre::task;
using gyre::postgres::client;
using gyre::postgres::client_options;
using gyre::postgres::copy_writer;
using gyre::postgres::errc;
using gyre::postgres::querier;
using gyre::postgres::statement;
using gyre::postgres::subscription;
using gyre::postgres::transaction;
using gyre::test::calls::error_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

// --- Streams ---

struct PostgresStream : gyre::postgres::test::client_fixture {};

task<std::pair<std::int64_t, std::int64_t>> sum_of(async_generator<std::int64_t> numbers) {
  std::pair<std::int64_t, std::int64_t> count_and_sum;
  while (const std::int64_t* each = co_await numbers.next()) {
    ++count_and_sum.first;
    count_and_sum.second += *each;
  }
  co_return count_and_sum;
}

TEST_F(PostgresStream, GivesAllRowsInOrder) {
  run([](PostgresStream& test) -> task<> {
    client db = test.connect();
    auto numbers = db.stream<std::tuple<int, std::string>>(
        "select i, i::text from generate_series(1, $1) i", 100'000);
    int expected = 0;
    while (const auto* row = co_await numbers.next()) {
      ++expected;
      if (*row != std::tuple(expected, std::to_string(expected))) {
        ADD_FAILURE() << expected;
        break;
      }
    }
    EXPECT_EQ(expected, 100'000);
    EXPECT_EQ(co_await numbers.next(), nullptr);
    EXPECT_EQ(db.metrics().idle, 1U);
  }(*this));
}

TEST_F(PostgresStream, MayBeEmpty) {
  run([](PostgresStream& test) -> task<> {
    client db = test.connect();
    EXPECT_THAT(co_await sum_of(db.stream<std::int64_t>("select 1::int8 where false")), Pair(0, 0));
    EXPECT_EQ(db.metrics().idle, 1U);
  }(*this));
}

TEST_F(PostgresStream, FailsIfARowDoesNotFit) {
  run([](PostgresStream& test) -> task<> {
    client db = test.connect();
    EXPECT_EQ(co_await error_of(sum_of(db.stream<std::int64_t>("select 1::int8, 2"))),
              errc::column_count);
    EXPECT_EQ(co_await error_of(sum_of(db.stream<std::int64_t>(
                  "select case when i < 900 then i end::int8 from generate_series(1, 1000) i"))),
              errc::null_value);
    EXPECT_EQ(co_await error_of(sum_of(db.stream<std::int64_t>(
                  "select 1000 / (900 - i)::int8 from generate_series(1, 1000) i"))),
              errc::division_by_zero);
    EXPECT_EQ(co_await error_of(sum_of(db.stream<std::int64_t>("selec"))), errc::syntax_error);
    EXPECT_EQ(co_await db.query_one<int>("select 1"), 1);
  }(*this));
}

TEST_F(PostgresStream, CommitsItsOwnTransaction) {
  run([](PostgresStream& test) -> task<> {
    client db = test.connect();
    co_await db.execute("create table item (id int8)");
    EXPECT_THAT(co_await sum_of(db.stream<std::int64_t>(
                    "insert into item select generate_series(1, 1000) returning id")),
                Pair(1000, 500'500));
    EXPECT_EQ(co_await db.query_one<int>("select count(*) from item"), 1000);
  }(*this));
}

TEST_F(PostgresStream, ThatIsGivenUpIsRolledBack) {
  run([](PostgresStream& test) -> task<> {
    client_options options = test.options();
    options.max_open = 1;
    client db = test.connect(options);
    co_await db.execute("create table item (id int8)");
    for (int each = 0; each < 3; ++each) {
      auto numbers = db.stream<std::int64_t>(
          "insert into item select generate_series(1, 100000) returning id");
      EXPECT_NE(co_await numbers.next(), nullptr);
    }
    // The connection becomes free.
    EXPECT_THAT(co_await sum_of(db.stream<std::int64_t>("select count(*) from item")), Pair(1, 0));
    EXPECT_EQ(db.metrics().open, 1U);
  }(*this));
}

TEST_F(PostgresStream, IsAPartOfItsTransaction) {
  run([](PostgresStream& test) -> task<> {
    client db = test.connect();
    co_await db.execute("create table item (id int8)");
    co_await db.transaction([](transaction& tx) -> task<> {
      co_await tx.execute("insert into item select generate_series(1, 1000)");
      EXPECT_THAT(co_await sum_of(tx.stream<std::int64_t>("select id from item")),
                  Pair(1000, 500'500));
      {
        auto numbers = tx.stream<std::int64_t>("select id from item");
        EXPECT_NE(co_await numbers.next(), nullptr);
      }
      // A stream that was given up leaves the transaction as it is; two may be read in turns.
      auto first = tx.stream<std::int64_t>("select id from item order by id");
      auto second = tx.stream<std::int64_t>("select id from item order by id desc");
      for (int each = 1; each <= 1000; ++each) {
        const std::int64_t* const one = co_await first.next();
        const std::int64_t* const two = co_await second.next();
        if (one == nullptr || two == nullptr || *one != each || *two != 1001 - each) {
          ADD_FAILURE() << each;
          break;
        }
      }
    });
  }(*this));
}

TEST_F(PostgresStream, NeedsNoTransactionInASession) {
  run([](PostgresStream& test) -> task<> {
    client db = test.connect();
    auto own = co_await db.acquire_session();
    EXPECT_THAT(co_await sum_of(own.stream<std::int64_t>("select generate_series(1, 1000::int8)")),
                Pair(1000, 500'500));
    co_await own.execute("begin");
    EXPECT_THAT(co_await sum_of(own.stream<std::int64_t>("select generate_series(1, 1000::int8)")),
                Pair(1000, 500'500));
    co_await own.execute("commit");
  }(*this));
}

TEST_F(PostgresStream, HoldsLargeRows) {
  run([](PostgresStream& test) -> task<> {
    client db = test.connect();
    auto texts = db.stream<std::string>("select repeat('x', 300000) from generate_series(1, 100)");
    int count = 0;
    while (const std::string* each = co_await texts.next()) {
      ++count;
      if (each->size() != 300'000) ADD_FAILURE() << each->size();
    }
    EXPECT_EQ(count, 100);
  }(*this));
}

// --- Copies ---

struct PostgresCopy : gyre::postgres::test::client_fixture {};

struct item {
  int id;
  std::string name;
  std::optional<double> weight;

  bool operator==(const item&) const = default;
};

TEST_F(PostgresCopy, CopiesRowsIn) {
  run([](PostgresCopy& test) -> task<> {
    client db = test.connect();
    co_await db.execute(
        "create table item (id int8, name varchar(20), weight numeric, made date default "
        "'2026-1-1')");
    const std::vector<item> items = {{1, "bolt", 0.5}, {2, "nut\t\"\\", std::nullopt}};
    EXPECT_EQ(co_await db.copy_rows("item (id, name, weight)", items), 2U);
    const std::vector<std::pair<std::string, int>> more = {{"x", 3}};
    EXPECT_EQ(co_await db.copy_rows("public.item (name, id)", more), 1U);
    const auto copied = co_await db.query<item>("select id, name, weight from item order by id");
    EXPECT_THAT(copied, ElementsAre(items[0], items[1], item{3, "x", std::nullopt}));
    EXPECT_EQ(db.metrics().idle, 1U);
  }(*this));
}

TEST_F(PostgresCopy, CopiesRowsThatAreMadeOnTheWay) {
  run([](PostgresCopy& test) -> task<> {
    client db = test.connect();
    co_await db.execute("create table number (value int)");
    const auto make = []() -> async_generator<int> {
      for (int each = 1; each <= 300'000; ++each) co_yield each;
    };
    EXPECT_EQ(co_await db.copy_rows("number (value)", make()), 300'000U);
    EXPECT_EQ(co_await db.query_one<std::int64_t>("select sum(value)::int8 from number"),
              45'000'150'000);
  }(*this));
}

TEST_F(PostgresCopy, IsAPartOfItsTransaction) {
  run([](PostgresCopy& test) -> task<> {
    client db = test.connect();
    co_await db.execute("create table number (value int)");
    const std::vector<int> numbers = {1, 2};
    EXPECT_EQ(co_await error_of(db.transaction([&numbers](transaction& tx) -> task<> {
                // The transaction begins with the COPY.
                EXPECT_EQ(co_await tx.copy_rows("number (value)", numbers), 2U);
                EXPECT_EQ(co_await tx.query_one<int>("select count(*) from number"), 2);
                co_await tx.execute("select 1/0");
              })),
              errc::division_by_zero);
    EXPECT_EQ(co_await db.query_one<int>("select count(*) from number"), 0);
  }(*this));
}

TEST_F(PostgresCopy, ReportsErrorsOfTheServer) {
  run([](PostgresCopy& test) -> task<> {
    client db = test.connect();
    co_await db.execute("create table number (value int check (value > 0))");
    const std::vector<int> one_and_zero = {1, 0};
    const std::vector<std::int64_t> large = {5'000'000'000};
    const std::vector<std::string> texts = {"1"};
    const std::vector<int> many(3'000'000, -1);
    EXPECT_EQ(co_await error_of(db.copy_rows("number (value)", one_and_zero)),
              errc::check_violation);
    EXPECT_EQ(co_await error_of(db.copy_rows("number (value)", large)), errc::out_of_range);
    EXPECT_EQ(co_await error_of(db.copy_rows("number (value)", texts)), errc::unsupported_type);
    EXPECT_EQ(co_await error_of(db.copy_rows("nowhere (value)", one_and_zero)),
              errc::undefined_table);
    EXPECT_EQ(co_await error_of(db.copy_rows("number (value, value)", one_and_zero)),
              errc::column_count);
    // The error comes while much is still to be sent.
    EXPECT_EQ(co_await error_of(db.copy_rows("number (value)", many)), errc::check_violation);
    EXPECT_EQ(co_await db.query_one<int>("select count(*) from number"), 0);
    EXPECT_EQ(co_await error_of(db.copy_in("select 1")), errc::not_a_copy);
    EXPECT_EQ(co_await error_of(db.copy_in("copy number from '/nowhere'")), errc::undefined_file);
    EXPECT_EQ(co_await db.query_one<int>("select 1"), 1);
  }(*this));
}

TEST_F(PostgresCopy, CopiesTextIn) {
  run([](PostgresCopy& test) -> task<> {
    client db = test.connect();
    co_await db.execute("create table item (id int, name text)");
    copy_writer copy = co_await db.copy_in("copy item from stdin (format csv)");
    co_await copy.write("1,bo");
    co_await copy.write("lt\n2,nut\n");
    EXPECT_EQ(co_await copy.finish(), 2U);
    EXPECT_EQ(co_await error_of(copy.write("3,x\n")), errc::not_a_copy);
    const auto items = co_await db.query<std::pair<int, std::string>>("select * from item");
    EXPECT_THAT(items, ElementsAre(Pair(1, "bolt"), Pair(2, "nut")));
  }(*this));
}

TEST_F(PostgresCopy, AWriterThatWasMovedFromFails) {
  run([](PostgresCopy& test) -> task<> {
    client db = test.connect();
    co_await db.execute("create table number (value int)");
    copy_writer first = co_await db.copy_in("copy number from stdin");
    copy_writer second = std::move(first);
    EXPECT_EQ(co_await error_of(first.write("1\n")), errc::not_a_copy);
    EXPECT_EQ(co_await error_of(first.finish()), errc::not_a_copy);
    co_await second.write("2\n");
    EXPECT_EQ(co_await second.finish(), 1U);
  }(*this));
}

TEST_F(PostgresCopy, ThatIsGivenUpCopiesNothing) {
  run([](PostgresCopy& test) -> task<> {
    client db = test.connect();
    co_await db.execute("create table item (id int, name text)");
    {
      copy_writer copy = co_await db.copy_in("copy item from stdin (format csv)");
      co_await copy.write("1,bolt\n");
    }
    EXPECT_EQ(co_await db.query_one<int>("select count(*) from item"), 0);
    EXPECT_EQ(co_await error_of(db.transaction([](transaction& tx) -> task<> {
                copy_writer copy = co_await tx.copy_in("copy item from stdin (format csv)");
                co_await copy.write("1,bolt\n");
                throw std::system_error(make_error_code(errc::server));
              })),
              errc::server);
    EXPECT_EQ(co_await db.query_one<int>("select count(*) from item"), 0);
  }(*this));
}

TEST_F(PostgresCopy, KeepsOtherStatementsFromItsConnection) {
  run([](PostgresCopy& test) -> task<> {
    client db = test.connect();
    co_await db.execute("create table number (value int)");
    const auto is_refused = [](querier& target) -> task<bool> {
      try {
        co_await target.execute("select 1");
      } catch (const std::logic_error&) {
        co_return true;
      }
      co_return false;
    };
    co_await db.transaction([&is_refused](transaction& tx) -> task<> {
      copy_writer copy = co_await tx.copy_in("copy number from stdin");
      co_await copy.write("1\n");
      EXPECT_TRUE(co_await is_refused(tx));
      EXPECT_EQ(co_await copy.finish(), 1U);
      EXPECT_FALSE(co_await is_refused(tx));
      auto pieces = tx.copy_out("copy number to stdout");
      EXPECT_NE(co_await pieces.next(), nullptr);
      EXPECT_TRUE(co_await is_refused(tx));
      EXPECT_EQ(co_await pieces.next(), nullptr);
      EXPECT_FALSE(co_await is_refused(tx));
    });
    EXPECT_EQ(db.metrics().idle, 1U);
  }(*this));
}

TEST_F(PostgresCopy, WaitsForTheStatementsBeforeIt) {
  run([](PostgresCopy& test) -> task<> {
    client db = test.connect();
    co_await db.execute("create table number (value int)");
    const std::vector<int> numbers = {1, 2};
    co_await db.transaction([&numbers](transaction& tx) -> task<> {
      co_await tx.execute("select 1");
      auto all = gyre::when_all(tx.execute("select pg_sleep(0.01)"), tx.execute("select 2"),
                                tx.copy_rows("number (value)", numbers));
      co_await std::move(all);
    });
    EXPECT_EQ(co_await db.query_one<int>("select count(*) from number"), 2);
  }(*this));
}

TEST_F(PostgresCopy, CopiesOut) {
  run([](PostgresCopy& test) -> task<> {
    client db = test.connect();
    std::string all;
    std::size_t largest = 0;
    auto pieces = db.copy_out("copy (select generate_series(1, 300000)) to stdout");
    while (const std::string* piece = co_await pieces.next()) {
      EXPECT_TRUE(piece->ends_with('\n'));
      largest = std::max(largest, piece->size());
      all += *piece;
    }
    std::string expected;
    for (int each = 1; each <= 300'000; ++each) expected.append(std::to_string(each)).append("\n");
    EXPECT_TRUE(all == expected);
    // A slow reader does not make the client hold all.
    EXPECT_LT(largest, 1'000'000U);
    EXPECT_EQ(db.metrics().idle, 1U);
  }(*this));
}

TEST_F(PostgresCopy, ASlowReaderHoldsTheServerUp) {
  run([](PostgresCopy& test) -> task<> {
    client db = test.connect();
    client watcher = test.connect();
    auto pieces =
        db.copy_out("copy (select repeat('x', 1000) from generate_series(1, 100000)) to stdout");
    EXPECT_NE(co_await pieces.next(), nullptr);
    // The server waits until it can send.
    while (co_await watcher.query_one<int>("select count(*) from pg_stat_activity where "
                                           "wait_event = 'ClientWrite'") == 0) {
    }
    std::size_t size = 0;
    while (const std::string* piece = co_await pieces.next()) size += piece->size();
    EXPECT_GT(size, 90'000'000U);
  }(*this));
}

TEST_F(PostgresCopy, OutThatIsGivenUpEnds) {
  run([](PostgresCopy& test) -> task<> {
    client db = test.connect();
    {
      auto pieces =
          db.copy_out("copy (select repeat('x', 1000) from generate_series(1, 1000000)) to stdout");
      EXPECT_NE(co_await pieces.next(), nullptr);
    }
    EXPECT_EQ(co_await error_of([](client& target) -> task<> {
                auto pieces = target.copy_out(
                    "copy (select 1/(10-i) from generate_series(1, 20) i) "
                    "to stdout");
                while (co_await pieces.next() != nullptr) {
                }
              }(db)),
              errc::division_by_zero);
    EXPECT_EQ(co_await error_of([](client& target) -> task<> {
                auto pieces = target.copy_out("select 1");
                while (co_await pieces.next() != nullptr) {
                }
              }(db)),
              errc::not_a_copy);
    EXPECT_EQ(co_await db.query_one<int>("select 1"), 1);
  }(*this));
}

// --- Notifications ---

struct PostgresSubscription : gyre::postgres::test::client_fixture {};

TEST_F(PostgresSubscription, ReceivesNotificationsInOrder) {
  run([](PostgresSubscription& test) -> task<> {
    client db = test.connect();
    subscription news = co_await db.listen("News \"of\" today");
    subscription also = co_await db.listen("News \"of\" today");
    subscription other = co_await db.listen("other");
    for (int each = 0; each < 100; ++each) {
      co_await db.notify("News \"of\" today", std::to_string(each));
    }
    for (int each = 0; each < 100; ++each) {
      const auto message = co_await news.next();
      EXPECT_TRUE(message.has_value());
      if (!message) break;
      EXPECT_EQ(message->payload, std::to_string(each));
      EXPECT_EQ(message->channel, "News \"of\" today");
      EXPECT_FALSE(message->follows_gap);
      EXPECT_GT(message->process_id, 0);
      EXPECT_EQ(also.try_next().value_or(gyre::postgres::notification()).payload,
                std::to_string(each));
    }
    EXPECT_EQ(news.try_next(), std::nullopt);
    EXPECT_EQ(other.try_next(), std::nullopt);
    co_await db.notify("other");
    EXPECT_EQ((co_await other.next()).value_or(gyre::postgres::notification()).payload, "");
  }(*this));
}

TEST_F(PostgresSubscription, ComesWithTheTransaction) {
  run([](PostgresSubscription& test) -> task<> {
    client db = test.connect();
    subscription news = co_await db.listen("news");
    co_await db.transaction([&news](transaction& tx) -> task<> {
      co_await tx.notify("news", "1");
      co_await tx.execute("select pg_sleep(0.01)");
      EXPECT_EQ(news.try_next(), std::nullopt);
    });
    EXPECT_EQ((co_await news.next()).value_or(gyre::postgres::notification()).payload, "1");
  }(*this));
}

TEST_F(PostgresSubscription, DropsTheOldestBeyondItsLimitAndTellsTheGap) {
  run([](PostgresSubscription& test) -> task<> {
    client db = test.connect();
    subscription few = co_await db.listen("news", {.max_messages = 2});
    subscription small = co_await db.listen("news", {.max_bytes = 3});
    subscription last = co_await db.listen("last");
    for (int each = 10; each < 20; ++each) co_await db.notify("news", std::to_string(each));
    co_await db.notify("last");
    static_cast<void>(co_await last.next());
    const auto first = co_await few.next();
    EXPECT_TRUE(first && first->payload == "18" && first->follows_gap);
    const auto second = co_await few.next();
    EXPECT_TRUE(second && second->payload == "19" && !second->follows_gap);
    EXPECT_EQ(few.dropped(), 8U);
    const auto only = co_await small.next();
    EXPECT_TRUE(only && only->payload == "19" && only->follows_gap);
    EXPECT_EQ(small.dropped(), 9U);
  }(*this));
}

TEST_F(PostgresSubscription, ListensAgainAfterAReconnectAndTellsTheGap) {
  run([](PostgresSubscription& test) -> task<> {
    client db = test.connect();
    subscription news = co_await db.listen("news");
    for (int round = 0; round < 3; ++round) {
      co_await test.server.kill();
      co_await test.server.start_again();
      const auto gap = co_await news.next();
      EXPECT_TRUE(gap && gap->follows_gap && gap->payload.empty());
      // Nothing that comes after the gap is missed.
      co_await db.execute(statement("select pg_notify('news', 'x')", {.is_idempotent = true}));
      const auto message = co_await news.next();
      EXPECT_TRUE(message && message->payload == "x" && !message->follows_gap);
    }
  }(*this));
}

TEST_F(PostgresSubscription, ItsConnectionEndsWithTheLastOne) {
  run([](PostgresSubscription& test) -> task<> {
    client db = test.connect();
    const auto listeners = [](client& target) {
      return target.query_one<int>(
          "select count(*) from pg_stat_activity where backend_type = 'client backend' and "
          "pid <> pg_backend_pid()");
    };
    {
      subscription news = co_await db.listen("news");
      subscription more = co_await db.listen("more");
      // The connection that asked whether the server is ready may still be ending.
      while (co_await listeners(db) != 1) {
      }
      more = subscription();
      EXPECT_EQ(co_await more.next(), std::nullopt);
    }
    while (co_await listeners(db) != 0) {
    }
    subscription again = co_await db.listen("news");
    co_await db.notify("news", "1");
    EXPECT_EQ((co_await again.next()).value_or(gyre::postgres::notification()).payload, "1");
  }(*this));
}

TEST_F(PostgresSubscription, RefusesNamesThatCannotBe) {
  run([](PostgresSubscription& test) -> task<> {
    client db = test.connect();
    const auto is_refused = [](client& target, std::string name,
                               gyre::postgres::subscription_options options) -> task<bool> {
      try {
        static_cast<void>(co_await target.listen(std::move(name), options));
      } catch (const std::invalid_argument&) {
        co_return true;
      }
      co_return false;
    };
    EXPECT_TRUE(co_await is_refused(db, "", {}));
    EXPECT_TRUE(co_await is_refused(db, std::string(64, 'x'), {}));
    EXPECT_TRUE(co_await is_refused(db, std::string("a\0b", 3), {}));
    EXPECT_TRUE(co_await is_refused(db, "x", {.max_messages = 0}));
    EXPECT_FALSE(co_await is_refused(db, std::string(63, 'x'), {}));
  }(*this));
}

}  // namespace
}  // namespace postgres_stream_test

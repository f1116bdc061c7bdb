// SPDX-License-Identifier: Apache-2.0
// The examples in the comments of the headers of engines/postgres.
#include <gyre/engines/postgres/client.hpp>
#include <gyre/engines/postgres/numeric.hpp>
#include <gyre/engines/postgres/uuid.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/when_all.hpp>
#include <tests/support/postgres_server.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace postgres_test {

enum class colour { red, green };

std::string_view name_of(colour named) { return named == colour::red ? "red" : "green"; }
colour colour_named(std::string_view name) { return name == "red" ? colour::red : colour::green; }

class account {
 public:
  account() = default;

  int id = 0;
  std::string owner;
};

}  // namespace postgres_test

using postgres_test::account;
using postgres_test::colour;
using postgres_test::colour_named;
using postgres_test::name_of;

// clang-format off
// gyre/engines/postgres/argument_traits.hpp
template <>
struct gyre::postgres::argument_traits<colour> {
  static void write(argument_writer& output, colour value) {
    output.write_text(name_of(value));
  }
};

// gyre/engines/postgres/column_traits.hpp
template <>
struct gyre::postgres::column_traits<colour> {
  static colour read(const column_value& value) { return colour_named(value.text()); }
};

// gyre/engines/postgres/row_traits.hpp
template <>
inline constexpr auto gyre::postgres::row_members<account> =
    std::tuple(&account::id, &account::owner);
// clang-format on

namespace postgres_test {
namespace {

using namespace std::chrono_literals;

struct PostgresExamples : testing::Test {
  gyre::loop loop;
  gyre::test::postgres_server server{loop};
  gyre::postgres::client database{loop, "postgresql://postgres@?host=" + server.folder()};

  template <class Example>
  void run(Example example) {
    static_cast<void>(gyre::sync_wait(loop, std::move(example)));
  }
  void prepare(std::string script) { run(database.execute_script(std::move(script))); }
};

// gyre/engines/postgres/client.hpp, client_options.hpp
TEST_F(PostgresExamples, ClientsAreMadeOfUrls) {
  {
    // clang-format off
    gyre::postgres::client db(loop, "postgresql://app@localhost/shop");
    // clang-format on
    EXPECT_EQ(db.metrics().shared, 0U);
  }
  // clang-format off
  auto options = gyre::postgres::client_options::parse(
      "postgresql://app:secret@db.example.org/shop?sslmode=verify-full");
  options.max_open = 4;
  gyre::postgres::client db(loop, options);
  // clang-format on
  EXPECT_EQ(db.metrics().shared, 0U);
}

gyre::task<> query(gyre::postgres::client& db) {
  // clang-format off
  auto items = co_await db.query<std::tuple<std::int64_t, std::string>>(
      "select id, name from item where price < $1", 10);
  auto id = co_await db.query_one<std::int64_t>(
      "insert into item (name) values ($1) returning id", "bolt");
  // clang-format on
  EXPECT_TRUE(items.empty());
  EXPECT_EQ(id, 1);
}

TEST_F(PostgresExamples, Client) {
  prepare("create table item (id bigserial, name text, price numeric)");
  run(query(database));
}

// gyre/engines/postgres/error.hpp
gyre::task<> insert_twice(gyre::postgres::client& db, std::string email) {
  co_await db.execute("insert into account (email) values ($1)", email);
  // clang-format off
  try {
    co_await db.execute("insert into account (email) values ($1)", email);
  } catch (const gyre::postgres::server_error& error) {
    if (error.code() != gyre::postgres::errc::unique_violation) throw;
    std::cout << error.constraint() << '\n';  // such as "account_email_key"
  }
  // clang-format on
}

TEST_F(PostgresExamples, Error) {
  prepare("create table account (email text unique)");
  run(insert_twice(database, "a@example.org"));
}

// gyre/engines/postgres/statement.hpp
gyre::task<> make_report(gyre::postgres::client& db, int year) {
  // clang-format off
  const gyre::postgres::statement slow("select report($1)", {.timeout = 30s});
  auto report = co_await db.query_one<std::string>(slow, year);
  // clang-format on
  EXPECT_EQ(report, "2026");
}

TEST_F(PostgresExamples, Statement) {
  prepare("create function report(int) returns text language sql as 'select $1::text'");
  run(make_report(database, 2026));
}

// gyre/engines/postgres/querier.hpp
// clang-format off
struct item {
  std::int64_t id;
  std::string name;
  std::optional<double> weight;
};
gyre::task<> show(gyre::postgres::querier& db) {  // a client or a transaction
  auto light = co_await db.query<item>("select id, name, weight from item where weight < $1", 5);
  auto one = co_await db.query_one<std::string>("select name from item where id = $1", 7);
  auto changed = co_await db.execute("delete from item where name = $1", "bolt");
  std::cout << light.size() << ' ' << one << ' ' << changed << '\n';
}
// clang-format on

gyre::task<> stream_and_copy(gyre::postgres::querier& db) {
  // clang-format off
  std::vector<std::tuple<int, std::string>> rows = {{1, "bolt"}, {2, "nut"}};
  co_await db.copy_rows("item (id, name)", rows);
  // clang-format on
  double total = 0;
  {
    // clang-format off
    auto items = db.stream<item>("select id, name, weight from item");
    while (item* next = co_await items.next()) total += next->weight.value_or(0);
    // clang-format on
  }
  EXPECT_EQ(total, 3);
  // clang-format off
  auto lines = db.copy_out("copy item to stdout (format csv)");
  while (auto* line = co_await lines.next()) std::cout << *line;
  // clang-format on
}

TEST_F(PostgresExamples, Querier) {
  prepare(
      "create table item (id int8, name text, weight float8);"
      "insert into item values (6, 'bolt', 2.5), (7, 'nut', 3), (8, 'x', null);"
      "delete from item where id = 8; update item set weight = 7 where id = 7");
  run(show(database));
  prepare("update item set weight = 3");
  run(stream_and_copy(database));
}

gyre::task<> change_many(gyre::postgres::querier& db) {
  // clang-format off
  std::vector<std::tuple<std::string, double>> weights = {{"bolt", 0.5}, {"nut", 0.2}};
  auto changed =
      co_await db.execute_many("update item set weight = $2 where name = $1", weights);
  // clang-format on
  EXPECT_EQ(changed, (std::vector<std::uint64_t>{1, 0}));
}

TEST_F(PostgresExamples, ExecuteMany) {
  prepare("create table item (name text, weight float8); insert into item values ('bolt', 1)");
  run(change_many(database));
}

// gyre/engines/postgres/batch.hpp
gyre::task<> run_batch(gyre::postgres::querier& db) {
  // clang-format off
  gyre::postgres::batch work;
  work.execute("update item set weight = weight * 2 where id = $1", 7);
  auto names = work.query<std::string>("select name from item where weight > $1", 5);
  co_await db.execute_batch(work);
  std::cout << names.get().size() << '\n';
  // clang-format on
  EXPECT_EQ(names.get(), std::vector<std::string>{"nut"});
}

TEST_F(PostgresExamples, Batch) {
  prepare(
      "create table item (id int, name text, weight float8); insert into item values (7, 'nut', "
      "3)");
  run(run_batch(database));
}

// gyre/engines/postgres/transaction.hpp
gyre::task<> move_money(gyre::postgres::client& db, int giver, int taker, int sum) {
  // clang-format off
  co_await db.transaction([&](gyre::postgres::transaction& tx) -> gyre::task<> {
    co_await tx.execute("update account set amount = amount - $1 where id = $2", sum, giver);
    co_await tx.execute("update account set amount = amount + $1 where id = $2", sum, taker);
  }, {.isolation = gyre::postgres::isolation::serializable});
  // clang-format on
  EXPECT_EQ(co_await db.query_one<int>("select amount from account where id = $1", taker), 60);
}

TEST_F(PostgresExamples, Transaction) {
  prepare("create table account (id int, amount int); insert into account values (1, 50), (2, 50)");
  run(move_money(database, 1, 2, 10));
}

// gyre/engines/postgres/session.hpp
gyre::task<> lock(gyre::postgres::client& db) {
  // clang-format off
  gyre::postgres::session own = co_await db.acquire_session();
  co_await own.execute("select pg_advisory_lock($1)", 7);
  // clang-format on
}

TEST_F(PostgresExamples, Session) { run(lock(database)); }

// gyre/engines/postgres/subscription.hpp
gyre::task<int> load_all(gyre::postgres::client& db) {
  co_return co_await db.query_one<int>("select 1");
}
gyre::task<> hear(gyre::postgres::client& db) {
  // clang-format off
  gyre::postgres::subscription orders = co_await db.listen("orders");
  // clang-format on
  // clang-format off
  while (auto message = co_await orders.next()) {
    if (message->follows_gap) co_await load_all(db);
    std::cout << message->payload << '\n';
  }
  // clang-format on
}
gyre::task<> notify_and_close(gyre::postgres::client& db) {
  gyre::postgres::subscription orders = co_await db.listen("orders");
  co_await db.notify("orders", "7");
  const auto message = co_await orders.next();
  EXPECT_TRUE(message && message->payload == "7");
  db.close();
}

TEST_F(PostgresExamples, Subscription) {
  run(gyre::as_task(gyre::when_all(hear(database), notify_and_close(database))));
}

// gyre/engines/postgres/copy_writer.hpp
gyre::task<> copy_text(gyre::postgres::client& db) {
  // clang-format off
  gyre::postgres::copy_writer copy = co_await db.copy_in("copy item from stdin (format csv)");
  co_await copy.write("1,bolt\n");
  co_await copy.write("2,nut\n");
  std::uint64_t rows = co_await copy.finish();
  // clang-format on
  EXPECT_EQ(rows, 2U);
}

TEST_F(PostgresExamples, CopyWriter) {
  prepare("create table item (id int, name text)");
  run(copy_text(database));
}

// gyre/engines/postgres/numeric.hpp, uuid.hpp
gyre::task<> read_values(gyre::postgres::client& db) {
  {
    // clang-format off
    auto price = co_await db.query_one<gyre::postgres::numeric>("select price from item");
    std::cout << price.text() << '\n';  // such as "19.90"
    // clang-format on
  }
  // clang-format off
  auto id = co_await db.query_one<gyre::postgres::uuid>("select gen_random_uuid()");
  std::string text = id.to_string();  // "0191d5a4-3c5e-4b1f-8d2a-6f0f6f1f2f3f"
  // clang-format on
  EXPECT_EQ(text.size(), 36U);
}

TEST_F(PostgresExamples, Values) {
  prepare("create table item (price numeric(8,2)); insert into item values (19.9)");
  run(read_values(database));
}

// gyre/engines/postgres/argument_traits.hpp, column_traits.hpp, row_traits.hpp
gyre::task<> use_own_types(gyre::postgres::client& db) {
  const auto echoed = co_await db.query_one<colour>("select $1::colour", colour::green);
  EXPECT_EQ(echoed, colour::green);
  const auto read = co_await db.query_one<account>("select 7, 'ann'");
  EXPECT_EQ(read.owner, "ann");
}

TEST_F(PostgresExamples, TypesOfYourOwn) {
  prepare("create type colour as enum ('red', 'green')");
  run(use_own_types(database));
}

}  // namespace
}  // namespace postgres_test

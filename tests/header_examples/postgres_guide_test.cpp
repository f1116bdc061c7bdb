// SPDX-License-Identifier: Apache-2.0
// The programs of docs/guide/postgres.md.
#include <gyre/engines/postgres/client.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>
#include <tests/support/postgres_server.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

namespace postgres_guide_test {
namespace {

using namespace std::chrono_literals;

// clang-format off
struct item {
  std::int64_t id;
  std::string name;
  std::optional<double> weight;
};

gyre::task<> first_queries(gyre::postgres::client& db) {
  co_await db.execute("create table item (id bigserial primary key, name text unique, weight float8)");
  auto id = co_await db.query_one<std::int64_t>(
      "insert into item (name, weight) values ($1, $2) returning id", "bolt", 0.5);
  auto items = co_await db.query<item>("select id, name, weight from item where id >= $1", id);
  auto weight = co_await db.query_optional<double>("select weight from item where name = $1", "nut");
  std::uint64_t deleted = co_await db.execute("delete from item where id = $1", id);
  std::cout << items.size() << ' ' << weight.has_value() << ' ' << deleted << '\n';
}
// clang-format on

// clang-format off
gyre::task<> insert_all(gyre::postgres::client& db, const std::vector<std::string>& names) {
  co_await db.execute("insert into item (name) select unnest($1::text[])", names);
  auto found = co_await db.query<std::string>("select name from item where name = any($1)", names);
  std::cout << found.size() << '\n';
}
// clang-format on

// clang-format off
gyre::task<bool> add_item(gyre::postgres::querier& db, std::string name) {
  try {
    co_await db.execute("insert into item (name) values ($1)", name);
    co_return true;
  } catch (const gyre::postgres::server_error& error) {
    if (error.code() != gyre::postgres::errc::unique_violation) throw;
    std::cout << error.what() << '\n' << error.detail() << '\n';
    co_return false;
  }
}
// clang-format on

// clang-format off
gyre::task<> rename_item(gyre::postgres::client& db, std::string name, std::string new_name) {
  co_await db.transaction([&](gyre::postgres::transaction& tx) -> gyre::task<> {
    auto id = co_await tx.query_optional<std::int64_t>(
        "select id from item where name = $1 for update", name);
    if (!id) co_return;
    co_await tx.execute("update item set name = $1 where id = $2", new_name, *id);
    co_await tx.notify("renamed", new_name);
  });
}
// clang-format on

// clang-format off
gyre::task<bool> try_to_add(gyre::postgres::transaction& tx, std::string name) {
  try {
    co_await tx.savepoint([&](gyre::postgres::transaction& inner) -> gyre::task<> {
      co_await inner.execute("insert into item (name) values ($1)", name);
    });
  } catch (const gyre::postgres::server_error&) {
    co_return false;
  }
  co_return true;
}
// clang-format on

// clang-format off
gyre::task<> fill_box(gyre::postgres::client& db, const std::vector<std::tuple<std::string, double>>& items) {
  auto changed = co_await db.execute_many("insert into item (name, weight) values ($1, $2)", items);
  gyre::postgres::batch work;
  work.execute("delete from item where weight < $1", 0.1);
  auto heaviest = work.query_optional<std::string>(
      "select name from item where weight > 0 order by weight desc limit 1");
  auto total = work.query_one<double>("select sum(weight) from item");
  co_await db.execute_batch(work);
  std::cout << changed.size() << ' ' << heaviest.get().value_or("none") << ' ' << total.get() << '\n';
}
// clang-format on

// clang-format off
gyre::task<double> total_weight(gyre::postgres::client& db) {
  double total = 0;
  auto items = db.stream<item>("select id, name, weight from item");
  while (item* next = co_await items.next()) total += next->weight.value_or(0);
  co_return total;
}
// clang-format on

// clang-format off
gyre::task<> copy(gyre::postgres::client& db) {
  std::vector<std::pair<std::string, double>> rows = {{"washer", 0.1}, {"screw", 0.3}};
  co_await db.copy_rows("item (name, weight)", rows);
  auto lines = db.copy_out("copy (select name from item) to stdout");
  while (auto* text = co_await lines.next()) std::cout << *text;
}
// clang-format on

// clang-format off
gyre::task<> follow_names(gyre::postgres::client& db) {
  gyre::postgres::subscription renamed = co_await db.listen("renamed");
  while (auto message = co_await renamed.next()) {
    if (message->follows_gap) std::cout << "some may be missing\n";
    std::cout << message->payload << '\n';
  }
}
// clang-format on

// clang-format off
gyre::task<std::string> slow_report(gyre::postgres::client& db) {
  const gyre::postgres::statement text("select pg_sleep(3600)::text", {.timeout = 10ms});
  try {
    auto report = co_await db.query_one<std::string>(text);
    co_return report;
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::timed_out) throw;
    co_return "too slow";
  }
}
// clang-format on

struct PostgresGuide : testing::Test {
  gyre::loop loop;
  gyre::test::postgres_server server{loop};
  gyre::postgres::client db{loop, "postgresql://postgres@?host=" + server.folder()};
};

gyre::task<> close_after_message(gyre::postgres::client& db) {
  gyre::postgres::subscription renamed = co_await db.listen("renamed");
  co_await rename_item(db, "nut", "big nut");
  const auto message = co_await renamed.next();
  EXPECT_TRUE(message && message->payload == "big nut");
  db.close();
}

gyre::task<> run_all(gyre::postgres::client& db) {
  co_await first_queries(db);
  const std::vector<std::string> names = {"bolt", "nut"};
  co_await insert_all(db, names);
  EXPECT_FALSE(co_await add_item(db, "nut"));
  EXPECT_TRUE(co_await add_item(db, "x"));
  const bool was_added =
      co_await db.transaction([](gyre::postgres::transaction& tx) -> gyre::task<bool> {
        EXPECT_FALSE(co_await try_to_add(tx, "nut"));
        co_return co_await try_to_add(tx, "y");
      });
  EXPECT_TRUE(was_added);
  co_await copy(db);
  EXPECT_NEAR(co_await total_weight(db), 0.4, 1e-9);
  const std::vector<std::tuple<std::string, double>> items = {{"plate", 1.5}, {"pin", 0.05}};
  co_await fill_box(db, items);
  EXPECT_NEAR(co_await total_weight(db), 1.9, 1e-9);
  EXPECT_EQ(co_await slow_report(db), "too slow");
  auto both = gyre::when_all(follow_names(db), close_after_message(db));
  co_await std::move(both);
}

TEST_F(PostgresGuide, Programs) { gyre::sync_wait(loop, run_all(db)); }

}  // namespace
}  // namespace postgres_guide_test

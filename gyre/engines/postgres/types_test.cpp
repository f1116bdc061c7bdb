// SPDX-License-Identifier: Apache-2.0
// Values that a real server reads and writes.
#include <gyre/engines/postgres/column_traits.hpp>

#include <gyre/engines/postgres/client_test_support.hpp>
#include <gyre/net/address.hpp>
#include <tests/support/failed_call.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace postgres_types_test {

enum class colour { red, green };

}  // namespace postgres_types_test

template <>
struct gyre::postgres::argument_traits<postgres_types_test::colour> {
  static void write(argument_writer& output, postgres_types_test::colour value) {
    output.write_text(value == postgres_types_test::colour::red ? "red" : "green");
  }
};
template <>
struct gyre::postgres::column_traits<postgres_types_test::colour> {
  static postgres_types_test::colour read(const column_value& value) {
    return value.text() == "red" ? postgres_types_test::colour::red
                                 : postgres_types_test::colour::green;
  }
};

namespace postgres_types_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::net::ip_address;
using gyre::postgres::client;
using gyre::postgres::errc;
using gyre::postgres::interval;
using gyre::postgres::json;
using gyre::postgres::numeric;
using gyre::postgres::uuid;
using gyre::test::calls::error_of;

struct PostgresTypes : gyre::postgres::test::client_fixture {};

// Whether the server reads the argument as the same value as the literal, and gives back what was
// sent, alone and in an array.
template <class T>
task<> expect_same(client& db, std::string type, std::string literal, T value) {
  const std::string text =
      "select $1::" + type + ", $1::" + type + " is not distinct from '" + literal + "'::" + type;
  const auto row = co_await db.query_one<std::pair<T, bool>>(text, value);
  EXPECT_EQ(row.first, value) << type << ' ' << literal;
  EXPECT_TRUE(row.second) << type << ' ' << literal;
  const std::string reading = "select '" + literal + "'::" + type;
  const T read = co_await db.query_one<T>(reading);
  EXPECT_EQ(read, value) << type << ' ' << literal;
  const std::string echo = "select $1::" + type + "[]";
  const std::vector<std::optional<T>> array = {value, std::nullopt, value};
  const auto echoed = co_await db.query_one<std::vector<std::optional<T>>>(echo, array);
  EXPECT_EQ(echoed, array) << type << ' ' << literal;
}

TEST_F(PostgresTypes, AreTheServersTypes) {
  run([](PostgresTypes& test) -> task<> {
    using namespace std::chrono;
    client db = test.connect();
    co_await expect_same(db, "bool", "t", true);
    co_await expect_same(db, "int2", "-32768", std::int16_t{-32768});
    co_await expect_same(db, "int4", "2147483647", 2147483647);
    co_await expect_same(db, "int8", "-9223372036854775808",
                         std::numeric_limits<std::int64_t>::min());
    co_await expect_same(db, "oid", "4294967295", std::uint32_t{0xffff'ffff});
    co_await expect_same(db, "float8", "1e-300", 1e-300);
    co_await expect_same(db, "float8", "-Infinity", -HUGE_VAL);
    co_await expect_same(db, "float4", "0.1", 0.1F);
    co_await expect_same(db, "numeric", "12", 12);
    co_await expect_same(db, "numeric", "0.5", 0.5);
    co_await expect_same(db, "text", "a \"{b}\\, ä", std::string("a \"{b}\\, ä"));
    co_await expect_same(db, "varchar(3)", "abc", std::string("abc"));
    co_await expect_same(db, "char(3)", "a", std::string("a  "));
    co_await expect_same(db, "name", "pg", std::string("pg"));
    co_await expect_same(db, "uuid", "0191d5a4-3c5e-4b1f-8d2a-6f0f6f1f2f3f",
                         uuid("0191d5a4-3c5e-4b1f-8d2a-6f0f6f1f2f3f"));
    const std::vector<std::byte> bytes = {std::byte{0}, std::byte{0xff}, std::byte{'\\'}};
    co_await expect_same(db, "bytea", "\\x00ff5c", bytes);
    co_await expect_same(db, "inet", "192.0.2.1", ip_address("192.0.2.1"));
    co_await expect_same(db, "inet", "2001:db8::7", ip_address("2001:db8::7"));
    for (const char* each : {"0", "-1.50", "NaN", "Infinity", "12345678901234567890.000001",
                             "0.00000000000000000001", "100000000", "9999.9999"}) {
      co_await expect_same(db, "numeric", each, numeric(each));
    }
  }(*this));
}

TEST_F(PostgresTypes, IncludeTimes) {
  run([](PostgresTypes& test) -> task<> {
    using namespace std::chrono;
    client db = test.connect();
    const sys_time<microseconds> point = sys_days(2024y / February / 29) + 12h + 34min + 56s + 7us;
    co_await expect_same(db, "timestamptz", "2024-02-29 12:34:56.000007+00", point);
    co_await expect_same(db, "timestamptz", "1066-10-14 09:00:00+00",
                         sys_seconds(sys_days(1066y / October / 14) + 9h));
    co_await expect_same(db, "timestamptz", "infinity", sys_seconds::max());
    co_await expect_same(db, "timestamptz", "-infinity", sys_time<nanoseconds>::min());
    co_await expect_same(db, "timestamp", "2024-02-29 12:34:56.000007",
                         local_time<microseconds>(point.time_since_epoch()));
    co_await expect_same(db, "date", "2024-02-29", sys_days(2024y / February / 29));
    co_await expect_same(db, "date", "0001-01-01", year_month_day(1y / January / 1));
    co_await expect_same(db, "date", "infinity", local_days::max());
    co_await expect_same(db, "date", "-infinity", sys_days::min());
    co_await expect_same(db, "interval", "1 year 2 months -3 days 04:00:00.5",
                         interval{14, -3, 4h + 500ms});
    co_await expect_same(db, "interval", "-01:30", minutes(-90));
    const auto time = co_await db.query_one<hh_mm_ss<microseconds>>("select '24:00'::time");
    EXPECT_EQ(time.to_duration(), 24h);
    EXPECT_TRUE(co_await db.query_one<bool>("select $1 = '12:34:56.789'::time",
                                            hh_mm_ss(12h + 34min + 56s + 789ms)));
    // The server has no wider value.
    EXPECT_EQ(co_await error_of(db.query_one<sys_time<microseconds>>(
                  "select '294276-12-31 23:59:59+00'::timestamptz")),
              errc::out_of_range);
    EXPECT_EQ(co_await db.query_one<sys_time<microseconds>>(
                  "select '4713-01-01 00:00:00+00 BC'::timestamptz"),
              sys_days(year(-4712) / January / 1));
    EXPECT_EQ(co_await error_of(db.execute("select $1::date", sys_days(days(2'147'400'000)))),
              errc::datetime_out_of_range);
  }(*this));
}

TEST_F(PostgresTypes, IncludeJsonEnumerationsAndThoseThatTheClientDoesNotKnow) {
  run([](PostgresTypes& test) -> task<> {
    client db = test.connect();
    co_await db.execute("create type colour as enum ('red', 'green')");
    co_await expect_same(db, "colour", "green", colour::green);
    co_await expect_same(db, "colour", "red", std::string("red"));
    const json object{R"({"a": [1, "\"x"]})"};
    EXPECT_EQ(co_await db.query_one<json>("select $1::jsonb", object), object);
    EXPECT_EQ(co_await db.query_one<json>("select $1::json", object), object);
    EXPECT_EQ(co_await db.query_one<std::string>("select $1::jsonb", object.text), object.text);
    const std::vector<json> objects = {object, {"1"}};
    EXPECT_EQ(co_await db.query_one<std::vector<json>>("select $1::jsonb[]", objects), objects);
    EXPECT_EQ(co_await db.query_one<std::string>("select '(1,2)'::point"), "(1,2)");
    EXPECT_EQ(co_await db.query_one<std::string>("select row(1, 'x y')"), "(1,\"x y\")");
    EXPECT_EQ(co_await db.query_one<std::string>("select $1::cidr", "10.0.0.0/8"), "10.0.0.0/8");
    EXPECT_EQ(co_await error_of(db.query_one<ip_address>("select '10.0.0.0/8'::inet")),
              errc::out_of_range);
    EXPECT_EQ(co_await db.query_one<std::string>("select 'x'"), "x");
    co_await db.execute("create domain positive as int check (value > 0)");
    EXPECT_EQ(co_await db.query_one<int>("select $1::positive", 7), 7);
    EXPECT_EQ(co_await error_of(db.execute("select $1::positive", -7)), errc::check_violation);
  }(*this));
}

TEST_F(PostgresTypes, AreInferredFromTheStatement) {
  run([](PostgresTypes& test) -> task<> {
    client db = test.connect();
    co_await db.execute("create table item (small int2, price numeric(10,2), tags text[])");
    const std::vector<std::string> tags = {"a", "b"};
    EXPECT_EQ(co_await db.execute("insert into item values ($1, $2, $3)", 7, 19.9, tags), 1U);
    EXPECT_EQ(co_await error_of(db.execute("insert into item (small) values ($1)", 70'000)),
              errc::out_of_range);
    EXPECT_EQ(co_await db.query_one<int>("select small from item where price > $1", 10), 7);
    EXPECT_EQ(co_await db.query_one<numeric>("select price from item where 'a' = any(tags)"),
              numeric("19.90"));
    const std::vector<int> some = {5, 6, 7};
    EXPECT_EQ(co_await db.query_one<int>("select small from item where small = any($1)", some), 7);
    EXPECT_EQ(co_await db.query_one<int>("select count(*) from item limit $1 offset $2", 1, 0), 1);
    EXPECT_EQ(co_await error_of(db.execute("select jsonb_build_object('a', $1)", 1)),
              errc::indeterminate_datatype);
  }(*this));
}

TEST_F(PostgresTypes, LargeOnesAndMany) {
  run([](PostgresTypes& test) -> task<> {
    client db = test.connect();
    const std::string large(5'000'000, 'x');
    EXPECT_TRUE(co_await db.query_one<std::string>("select $1::text", large) == large);
    std::vector<std::int64_t> many(500'000);
    for (std::size_t each = 0; each < many.size(); ++each) {
      many[each] = static_cast<std::int64_t>(each);
    }
    EXPECT_EQ(
        co_await db.query_one<std::int64_t>("select sum(i)::int8 from unnest($1::int8[]) i", many),
        124'999'750'000);
    const auto rows = co_await db.query<std::int64_t>("select unnest($1::int8[])", many);
    EXPECT_TRUE(rows == many);
  }(*this));
}

}  // namespace
}  // namespace postgres_types_test

// SPDX-License-Identifier: Apache-2.0
// Statements that are used again allocate nothing but their results.
#include <gyre/engines/postgres/client.hpp>

#include <gyre/engines/postgres/client_test_support.hpp>
#include <gyre/testing/allocations.hpp>
#include <gyre/trace/label.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <ranges>
#include <tuple>

namespace postgres_allocation_test {
namespace {

using gyre::task;
using gyre::postgres::client;
using gyre::postgres::transaction;

struct PostgresAllocation : gyre::postgres::test::client_fixture {};

task<> call_many(client& db, int count) {
  for (; count > 0; --count) {
    const auto row =
        co_await db.query_one<std::tuple<int, double>>("select $1::int, $2::float8", count, 0.5);
    if (std::get<0>(row) != count) ADD_FAILURE() << count;
    co_await db.execute("select $1::text", "a text");
  }
}

TEST_F(PostgresAllocation, RepeatedStatementsAllocateNothing) {
  run([](PostgresAllocation& test) -> task<> {
    client db = test.connect();
    // The flight recorder stores the name of what first takes a millisecond.
    gyre::trace::intern("select $1::int, $2::float8");
    gyre::trace::intern("select $1::text");
    co_await call_many(db, 1000);
    const gyre::testing::allocation_count before;
    co_await call_many(db, 1000);
    EXPECT_EQ(before.allocations(), 0U);
  }(*this));
}

task<std::uint64_t> allocations_of_batch(client& db, int size) {
  const gyre::testing::allocation_count before;
  const auto counts = co_await db.execute_many(
      "select $1::int",
      std::views::iota(0, size) | std::views::transform([](int id) { return id; }));
  if (counts.size() != static_cast<std::size_t>(size)) ADD_FAILURE() << counts.size();
  co_return before.allocations();
}

TEST_F(PostgresAllocation, AnExecutionOfABatchAllocatesNothing) {
  run([](PostgresAllocation& test) -> task<> {
    client db = test.connect();
    // The first ones make buffers of the connection larger.
    for (int round = 0; round < 3; ++round) co_await allocations_of_batch(db, 20'000);
    const auto few = co_await allocations_of_batch(db, 5'000);
    const auto many = co_await allocations_of_batch(db, 20'000);
    EXPECT_LE(many, few + 100);
    EXPECT_LT(few, 100U);
  }(*this));
}

}  // namespace
}  // namespace postgres_allocation_test

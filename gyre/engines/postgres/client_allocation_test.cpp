// SPDX-License-Identifier: Apache-2.0
// Statements that are used again allocate nothing but their results.
#include <gyre/engines/postgres/client.hpp>

#include <gyre/engines/postgres/client_test_support.hpp>
#include <gyre/testing/allocations.hpp>

#include <gtest/gtest.h>

#include <cstdint>
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
    co_await call_many(db, 1000);
    const gyre::testing::allocation_count before;
    co_await call_many(db, 1000);
    EXPECT_EQ(before.allocations(), 0U);
  }(*this));
}

}  // namespace
}  // namespace postgres_allocation_test

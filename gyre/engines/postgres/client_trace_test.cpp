// SPDX-License-Identifier: Apache-2.0
// The statements of a client in the flight recorder.
#include <gyre/engines/postgres/client.hpp>

#include <gyre/engines/postgres/client_test_support.hpp>
#include <gyre/engines/postgres/transaction.hpp>
#include <gyre/task/task.hpp>
#include <gyre/trace/dump.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace postgres_client_trace_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::postgres::client;
using gyre::postgres::transaction;
using testing::HasSubstr;
using testing::Not;

struct PostgresClientTrace : gyre::postgres::test::client_fixture {};

std::string report() { return gyre::trace::dump_text({.slow = 15ms}); }

TEST_F(PostgresClientTrace, NamesAStatementForWhichTheServerTakesLong) {
  run([](client db) -> task<> {
    co_await db.execute("select pg_sleep($1),\n       'own statement'", 0.02);
  }(connect()));
  // One line, and the parameters are not in it.
  EXPECT_THAT(report(), HasSubstr("statement select pg_sleep($1), 'own statement': "));
}

TEST_F(PostgresClientTrace, NamesAStatementOfATransaction) {
  run([](client db) -> task<> {
    co_await db.transaction([](transaction& tx) -> task<> {
      co_await tx.execute("select pg_sleep(0.02), 'in a transaction'");
    });
  }(connect()));
  EXPECT_THAT(report(), HasSubstr("statement select pg_sleep(0.02), 'in a transaction': "));
}

TEST_F(PostgresClientTrace, NamesAScript) {
  run([](client db) -> task<> {
    co_await db.execute_script("select pg_sleep(0.02); select 'of a script'");
  }(connect()));
  EXPECT_THAT(report(), HasSubstr("statement select pg_sleep(0.02); select 'of a script': "));
}

TEST_F(PostgresClientTrace, ShortensALongStatement) {
  run([](client db) -> task<> {
    const std::string comment(1000, 'x');
    co_await db.execute("select pg_sleep(0.02) -- " + comment);
  }(connect()));
  const std::string kept(95, 'x');  // 120 characters in all
  EXPECT_THAT(report(), HasSubstr("select pg_sleep(0.02) -- " + kept + "...: "));
  EXPECT_THAT(report(), Not(HasSubstr(kept + "x")));
}

}  // namespace
}  // namespace postgres_client_trace_test

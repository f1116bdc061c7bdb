// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/connection_core.hpp>

#include <gyre/engines/postgres/error.hpp>
#include <gyre/engines/postgres/oid.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/error.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <tests/support/postgres_requests.hpp>
#include <tests/support/postgres_server.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace connection_core_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::postgres::errc;
using gyre::postgres::detail::connection_core;
using gyre::postgres::detail::connection_options;
using gyre::postgres::detail::transaction_status;
using gyre::test::error_of;
using gyre::test::make_core;
using gyre::test::message_of;
using gyre::test::postgres_server;
using gyre::test::run_script;
using gyre::test::run_statement;
using gyre::test::sent_request;
using gyre::test::statement_result;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A loop, and a server that the tests of the suite share.
struct PostgresConnection : testing::Test {
  gyre::loop loop;
  postgres_server server{loop};

  void run(task<> test) { gyre::sync_wait(loop, std::move(test)); }
  auto connect(const connection_options& options = {}) {
    return make_core(loop, server.address(), options);
  }
};

TEST_F(PostgresConnection, ExecutesStatements) {
  run([](PostgresConnection& test) -> task<> {
    const auto core = test.connect();
    const auto sum =
        co_await run_statement(core, "select $1::int + $2::int, 'x'", gyre::test::texts("40", "2"));
    EXPECT_THAT(sum.rows, ElementsAre(ElementsAre("42", "x")));
    EXPECT_EQ(sum.tag, "SELECT 1");
    EXPECT_EQ(sum.status, transaction_status::idle);
    const auto null = co_await run_statement(core, "select null");
    EXPECT_THAT(null.rows, ElementsAre(ElementsAre("NULL")));
    const auto none = co_await run_statement(core, "");
    EXPECT_THAT(none.rows, IsEmpty());
    EXPECT_EQ(core->connection_number(), 1U);
    EXPECT_THAT(core->parameter("server_version"), testing::StartsWith("1"));
    core->close();
  }(*this));
}

}  // namespace
}  // namespace connection_core_test

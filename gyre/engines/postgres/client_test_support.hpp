// SPDX-License-Identifier: Apache-2.0
// Support for tests of the client of PostgreSQL.
#pragma once

#include <gyre/engines/postgres/client.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>
#include <tests/support/postgres_server.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

namespace gyre::postgres::test {

/// A loop, and a server of its own.
struct client_fixture : testing::Test {
  gyre::loop loop;
  gyre::test::postgres_server server{loop};

  void run(task<> test) { sync_wait(loop, std::move(test)); }
  client_options options() const {
    client_options made;
    made.server = server.address();
    made.user = gyre::test::postgres_server::user();
    return made;
  }
  client connect(const client_options& settings) { return {loop, settings}; }
  client connect() { return connect(options()); }
};

/// Waits until so many connections execute pg_sleep().
inline task<> wait_for_sleepers(client& db, int count) {
  for (;;) {
    const int sleepers = co_await db.query_one<int>(
        "select count(*) from pg_stat_activity where wait_event = 'PgSleep'");
    if (sleepers == count) co_return;
    co_await sleep_for(std::chrono::milliseconds{1});
  }
}

}  // namespace gyre::postgres::test

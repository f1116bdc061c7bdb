// SPDX-License-Identifier: Apache-2.0
// Support for tests of durable jobs: a database of their own, and workers.
#pragma once

#include <gyre/engines/postgres/client.hpp>
#include <gyre/engines/work/migrate.hpp>
#include <gyre/engines/work/queue.hpp>
#include <gyre/engines/work/worker.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/with_timeout.hpp>
#include <tests/support/postgres_server.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

namespace gyre::test {

/// A test with a PostgreSQL server, a client and the tables of jobs.
struct work_test : testing::Test {
  gyre::loop loop;
  postgres_server server{loop};
  postgres::client db{loop, options()};
  work::queue jobs{db};

  postgres::client_options options() const {
    postgres::client_options made;
    made.server = server.address();
    made.user = postgres_server::user();
    made.database = postgres_server::database();
    return made;
  }
  /// Runs a test's coroutine. A hang fails it.
  void run(task<> test) {
    const auto limited = [](work_test& self, task<> body) -> task<> {
      co_await work::migrate(self.db);
      co_await with_timeout(std::move(body), std::chrono::minutes{5});
    };
    sync_wait(loop, limited(*this, std::move(test)));
  }

  /// Runs `body()` while the worker runs, and drains it at the end.
  template <class Body>
  static task<> with_worker(work::worker& worker, Body body) {
    co_await with_scope([&](scope& workers) -> task<> {
      workers.spawn(worker.run());
      std::exception_ptr error;
      try {
        co_await body();
      } catch (...) {
        error = std::current_exception();
      }
      worker.drain();
      if (error != nullptr) std::rethrow_exception(error);
    });
  }

  /// Waits until the statement gives true, neither null nor nothing.
  task<> wait_until(std::string condition) {
    const std::string statement = "select coalesce((" + condition + "), false)";
    while (true) {
      const bool is_true = co_await db.query_one<bool>(statement);
      if (is_true) co_return;
      co_await sleep_for(std::chrono::milliseconds{5});
    }
  }
};

/// The code of the std::system_error with which `work` fails; none: no error.
template <class T>
task<std::error_code> code_of(task<T> work) {
  auto attempt = as_result(std::move(work));
  const auto result = co_await std::move(attempt);
  if (result) co_return std::error_code();
  try {
    std::rethrow_exception(result.error());
  } catch (const std::system_error& error) {
    co_return error.code();
  }
}

}  // namespace gyre::test

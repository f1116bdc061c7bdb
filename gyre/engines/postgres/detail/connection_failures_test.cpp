// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/connection_core.hpp>

#include <gyre/base/detail/splitmix64.hpp>
#include <gyre/engines/postgres/error.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/stop_when.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>
#include <tests/support/failed_call.hpp>
#include <tests/support/io_in_virtual_time.hpp>
#include <tests/support/pass_time.hpp>
#include <tests/support/postgres_requests.hpp>
#include <tests/support/postgres_server.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace connection_failures_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::postgres::errc;
using gyre::postgres::detail::connection_core;
using gyre::postgres::detail::connection_options;
using gyre::test::make_core;
using gyre::test::postgres_server;
using gyre::test::run_script;
using gyre::test::run_statement;
using gyre::test::sent_request;
using gyre::test::statement_result;
using gyre::test::texts;
using gyre::test::calls::error_of;
using gyre::test::calls::message_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

struct PostgresFailures : testing::Test {
  gyre::loop loop;
  postgres_server server{loop};

  void run(task<> test) { gyre::sync_wait(loop, std::move(test)); }
  auto connect(const connection_options& options = {}) {
    return make_core(loop, server.address(), options);
  }
};

// Stops `call` after `delay`; whether that was in time.
template <class T>
task<bool> stop_after(task<T> call, gyre::duration delay) {
  gyre::inplace_stop_source source;
  auto stopped = gyre::as_task(gyre::stop_when(std::move(call), source.get_token()));
  auto stopping = [](gyre::inplace_stop_source& stop_source, gyre::duration length) -> task<> {
    if (length > 0ms) co_await gyre::sleep_for(length);
    stop_source.request_stop();
  };
  auto both = gyre::when_all(error_of(std::move(stopped)), stopping(source, delay));
  const auto [error, done] = co_await std::move(both);
  co_return error == std::errc::operation_canceled;
}

task<std::string> count_sleeping(std::shared_ptr<connection_core> other) {
  const auto count = co_await run_script(
      std::move(other),
      "select count(*) from pg_stat_activity where pid <> pg_backend_pid() and state = 'active' "
      "and query like '%pg_sleep%'");
  co_return count.rows[0][0];
}

// --- Cancelled statements ---

TEST_F(PostgresFailures, CancelsTheStatementOfAStoppedCall) {
  run([](PostgresFailures& test) -> task<> {
    const auto core = test.connect();
    const auto other = test.connect();
    co_await run_statement(core, "select 1");
    EXPECT_TRUE(co_await stop_after(run_statement(core, "select pg_sleep(10000)"), 30ms));
    const auto one = co_await run_statement(core, "select 1");
    EXPECT_THAT(one.rows, SizeIs(1));
    EXPECT_EQ(co_await count_sleeping(other), "0");
    EXPECT_EQ(core->connection_number(), 1U);
    EXPECT_FALSE(core->is_fenced());
  }(*this));
}

task<std::string> count_waiting_for_locks(std::shared_ptr<connection_core> core) {
  const auto count = co_await run_statement(
      core, "select count(*)::text from pg_stat_activity where wait_event_type = 'Lock'");
  co_return count.rows[0][0];
}

TEST_F(PostgresFailures, CancelsThePreparationOfAStoppedCall) {
  run([](PostgresFailures& test) -> task<> {
    const char* const query = "select n from locked";
    const auto core = test.connect();
    const auto other = test.connect({.is_shared = false});
    const auto third = test.connect();
    co_await run_statement(other, "create table locked (n int)");
    co_await run_statement(other, "begin");
    co_await run_statement(other, "lock table locked in access exclusive mode");
    EXPECT_TRUE(co_await stop_after(run_statement(core, query), 30ms));
    while (co_await count_waiting_for_locks(third) != "0") {
    }
    // A caller who comes while the preparation is being cancelled is not cancelled with it.
    EXPECT_TRUE(co_await stop_after(run_statement(core, query), 30ms));
    auto both = gyre::when_all(run_statement(core, query), run_statement(other, "rollback"));
    const auto [found, ended] = co_await std::move(both);
    EXPECT_THAT(found.rows, SizeIs(0));
    EXPECT_EQ(core->connection_number(), 1U);
    EXPECT_FALSE(core->is_fenced());
  }(*this));
}

TEST_F(PostgresFailures, LetsARequestOfACancelledStatementEnd) {
  run([](PostgresFailures& test) -> task<> {
    const auto core = test.connect();
    co_await gyre::test::admit(core);
    sent_request request(core);
    core->query(request, "select pg_sleep(10000)");
    core->cancel(request);
    core->cancel(request);
    co_await request.wait();
    EXPECT_FALSE(request.was_lost());
    auto result = [](const sent_request& call) -> task<statement_result> {
      co_return call.result();
    };
    EXPECT_EQ(co_await error_of(result(request)), errc::query_canceled);
    EXPECT_EQ(core->in_flight(), 0U);
    co_await run_statement(core, "select 1");
    EXPECT_EQ(core->connection_number(), 1U);
  }(*this));
}

TEST_F(PostgresFailures, CancelsNoStatementOfAnotherCaller) {
  run([](PostgresFailures& test) -> task<> {
    const auto core = test.connect({.cancel_delay = 0ms});
    co_await run_statement(core, "select pg_sleep(0.001)");
    // The second statement is in flight behind the first when that is stopped.
    for (int each = 0; each < 50; ++each) {
      auto both = gyre::when_all(stop_after(run_statement(core, "select pg_sleep(0.001)"), 0ms),
                                 run_statement(core, "select $1::int", texts(each)));
      const auto [stopped, other] = co_await std::move(both);
      EXPECT_THAT(other.rows, ElementsAre(ElementsAre(std::to_string(each))));
    }
    EXPECT_EQ(core->connection_number(), 1U);
  }(*this));
}

TEST_F(PostgresFailures, AdmitsNobodyBehindAStatementThatNobodyWaitsFor) {
  run([](PostgresFailures& test) -> task<> {
    const auto core = test.connect({.cancel_delay = 10s});
    co_await run_statement(core, "select 1");
    co_await gyre::test::admit(core);
    std::optional<sent_request> request(core);
    core->query(*request, "select pg_sleep(0.05)");
    request.reset();
    EXPECT_TRUE(core->is_fenced());
    EXPECT_FALSE(core->try_admit());
    co_await run_statement(core, "select 1");
    EXPECT_FALSE(core->is_fenced());
  }(*this));
}

TEST_F(PostgresFailures, GivesAConnectionUpThatIsNotCancelled) {
  run([](PostgresFailures& test) -> task<> {
    const auto core =
        test.connect({.max_connect_attempts = 100, .cancel_delay = 1ms, .cancel_timeout = 30ms});
    co_await run_statement(core, "select 1");
    test.server.pause();
    EXPECT_TRUE(co_await stop_after(run_statement(core, "select 1"), 0ms));
    while (core->in_flight() > 0) co_await gyre::sleep_for(5ms);
    EXPECT_EQ(core->connection_number(), 0U);
    test.server.resume();
    const auto one = co_await run_statement(core, "select 1");
    EXPECT_THAT(one.rows, SizeIs(1));
  }(*this));
}

// Statements whose results tell which caller they are for, and of which some are stopped.
struct random_calls {
  std::shared_ptr<connection_core> core;
  gyre::detail::splitmix64 random{1};
  std::size_t stopped = 0;
  std::size_t answered = 0;

  std::uint64_t below(std::uint64_t bound) { return random() % bound; }
};

task<> call_at_random(random_calls& calls, std::size_t count, std::size_t caller) {
  for (std::size_t each = 0; each < count; ++each) {
    const std::string value = std::to_string(caller * 1'000'000 + each);
    const char* const text = calls.below(10) == 0 ? "select $1::text, pg_sleep(0.002)"
                                                  : "select $1::text, repeat('x', 3000)";
    auto call = run_statement(calls.core, text, texts(value));
    if (calls.below(2) == 0) {
      const gyre::duration delay = std::chrono::microseconds(calls.below(3000));
      if (co_await stop_after(std::move(call), delay)) {
        ++calls.stopped;
        continue;
      }
    } else {
      const auto result = co_await std::move(call);
      if (result.rows.size() != 1 || result.rows[0][0] != value) {
        throw std::runtime_error("another caller's reply");
      }
    }
    ++calls.answered;
  }
}

// 20,000 calls in all with GYRE_MANY_CALLS, for sanitizers.
TEST_F(PostgresFailures, SurvivesCallsThatStopAtRandom) {
  run([](PostgresFailures& test) -> task<> {
    constexpr std::size_t callers = 20;
    const std::size_t count = std::getenv("GYRE_MANY_CALLS") != nullptr ? 1000 : 15;
    random_calls calls{.core = test.connect({.cancel_delay = 1ms})};
    std::vector<task<>> all;
    for (std::size_t caller = 0; caller < callers; ++caller) {
      all.push_back(call_at_random(calls, count, caller));
    }
    co_await gyre::when_all(std::move(all));
    EXPECT_EQ(calls.stopped + calls.answered, count * callers);
    EXPECT_GT(calls.stopped, 0U);
    EXPECT_EQ(calls.core->connection_number(), 1U);
    co_await run_statement(calls.core, "select 1");
    EXPECT_EQ(calls.core->in_flight(), 0U);
    EXPECT_FALSE(calls.core->is_fenced());
  }(*this));
}

// --- Servers that end ---

TEST_F(PostgresFailures, FailsStatementsInFlightWhenTheServerIsKilled) {
  run([](PostgresFailures& test) -> task<> {
    const auto core = test.connect({.max_connect_attempts = 1000});
    co_await run_statement(core, "select 1");
    auto calls = gyre::when_all(error_of(run_script(core, "select pg_sleep(1000)")),
                                error_of(run_script(core, "select 1")), test.server.kill());
    const auto [first, second, killed] = co_await std::move(calls);
    EXPECT_EQ(first, errc::connection_lost);
    EXPECT_EQ(second, errc::connection_lost);
    EXPECT_EQ(core->connection_number(), 0U);
    co_await test.server.start_again();
    const auto one = co_await run_statement(core, "select 1");
    EXPECT_THAT(one.rows, SizeIs(1));
    EXPECT_EQ(core->connection_number(), 2U);
  }(*this));
}

TEST_F(PostgresFailures, TellsTheServersLastWords) {
  run([](PostgresFailures& test) -> task<> {
    const auto core = test.connect();
    const auto other = test.connect();
    co_await run_statement(core, "select 1");
    auto kill = [](std::shared_ptr<connection_core> killer) -> task<> {
      while (co_await count_sleeping(killer) == "0") {
      }
      co_await run_script(killer,
                          "select pg_terminate_backend(pid) from pg_stat_activity where pid <> "
                          "pg_backend_pid() and backend_type = 'client backend'");
    };
    auto both = gyre::when_all(message_of(run_script(core, "select pg_sleep(1000)")), kill(other));
    const auto [text, killed] = co_await std::move(both);
    EXPECT_THAT(text, HasSubstr("FATAL 57P01: terminating connection"));
    const auto one = co_await run_statement(core, "select 1");
    EXPECT_THAT(one.rows, SizeIs(1));
  }(*this));
}

TEST_F(PostgresFailures, ClosesASessionWithItsConnection) {
  run([](PostgresFailures& test) -> task<> {
    const auto core = test.connect({.is_shared = false, .reconnects = false});
    co_await run_script(core, "begin");
    co_await test.server.kill();
    co_await test.server.start_again();
    EXPECT_EQ(co_await error_of(run_script(core, "commit")), errc::connection_lost);
    EXPECT_EQ(co_await error_of(run_script(core, "commit")), errc::connection_lost);
    EXPECT_EQ(core->connection_number(), 0U);
  }(*this));
}

TEST_F(PostgresFailures, WaitsForAServerThatBegins) {
  run([](PostgresFailures& test) -> task<> {
    const auto core = test.connect({.max_connect_attempts = 100'000, .initial_delay = 1ms});
    co_await run_statement(core, "select 1");
    co_await test.server.kill();
    while (core->is_ready()) co_await gyre::sleep_for(1ms);
    auto both = gyre::when_all(run_statement(core, "select 1"), test.server.start_again());
    const auto [one, started] = co_await std::move(both);
    EXPECT_THAT(one.rows, SizeIs(1));
  }(*this));
}

TEST_F(PostgresFailures, FailsWhenNobodyListens) {
  run([](PostgresFailures& test) -> task<> {
    co_await test.server.kill();
    const auto core = test.connect({.max_connect_attempts = 2, .initial_delay = 1ms});
    const std::string text = co_await message_of(run_statement(core, "select 1"));
    EXPECT_THAT(text, HasSubstr("gyre::postgres::client unix:"));
    EXPECT_THAT(text, HasSubstr("Connection refused"));
    co_await test.server.start_again();
    const auto one = co_await run_statement(core, "select 1");
    EXPECT_THAT(one.rows, SizeIs(1));
  }(*this));
}

TEST_F(PostgresFailures, GivesUpAServerThatDoesNotReply) {
  run([](PostgresFailures& test) -> task<> {
    const auto core = test.connect({.reply_timeout = 20ms});
    while (co_await error_of(run_script(core, "select 1"))) {
    }
    test.server.pause();
    EXPECT_EQ(co_await error_of(run_script(core, "select 1")), errc::no_reply);
    test.server.resume();
  }(*this));
}

TEST_F(PostgresFailures, PingsAnIdleConnection) {
  run([](PostgresFailures& test) -> task<> {
    const auto patient = test.connect({.ping_interval = 10ms, .ping_timeout = 1min});
    const auto hasty = test.connect({.ping_interval = 10ms, .ping_timeout = 20ms});
    co_await run_statement(patient, "select 1");
    co_await gyre::sleep_for(50ms);
    EXPECT_EQ(patient->connection_number(), 1U);
    while (co_await error_of(run_script(hasty, "select 1"))) {
    }
    test.server.pause();
    while (hasty->is_ready()) co_await gyre::sleep_for(5ms);
    test.server.resume();
  }(*this));
}

TEST_F(PostgresFailures, LetsAStatementTakeItsTime) {
  gyre::test::io_in_virtual_time time;
  auto test = [](PostgresFailures& self, gyre::test::io_in_virtual_time& passing) -> task<> {
    const auto core =
        make_core(passing.loop, self.server.address(), {.ping_interval = 10ms, .ping_timeout = 4s});
    const auto other = make_core(passing.loop, self.server.address(), {.ping_interval = 24h});
    co_await run_script(other, "select pg_advisory_lock(7)");
    auto release = [](std::shared_ptr<connection_core> holder,
                      gyre::test::io_in_virtual_time& released) -> task<> {
      statement_result waiting;
      while (waiting.rows.empty()) {
        waiting = co_await run_script(holder, "select from pg_locks where not granted");
      }
      co_await gyre::test::pass_time(released, 60s);
      co_await run_script(holder, "select pg_advisory_unlock(7)");
    };
    auto both =
        gyre::when_all(run_statement(core, "select pg_advisory_lock(7)"), release(other, passing));
    const auto [locked, released] = co_await std::move(both);
    EXPECT_THAT(locked.rows, SizeIs(1));
    EXPECT_EQ(core->connection_number(), 1U);
  };
  gyre::sync_wait(time.loop, test(*this, time));
}

TEST_F(PostgresFailures, EndsStatementsWhenItIsClosed) {
  run([](PostgresFailures& test) -> task<> {
    const auto core = test.connect();
    co_await run_statement(core, "select 1");
    auto closing = [](connection_core& target) -> task<> {
      target.close();
      co_return;
    };
    auto both = gyre::when_all(error_of(run_script(core, "select pg_sleep(1000)")), closing(*core));
    const auto [error, done] = co_await std::move(both);
    EXPECT_EQ(error, gyre::io::errc::closed);
    EXPECT_EQ(co_await error_of(run_script(core, "select 1")), gyre::io::errc::not_open);
  }(*this));
}

}  // namespace
}  // namespace connection_failures_test

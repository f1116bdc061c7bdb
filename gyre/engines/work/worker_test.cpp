// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/work/worker.hpp>

#include <gyre/engines/postgres/client_options.hpp>
#include <gyre/engines/postgres/error.hpp>
#include <gyre/engines/postgres/session.hpp>
#include <gyre/engines/postgres/transaction.hpp>
#include <gyre/engines/work/error.hpp>
#include <gyre/engines/work/once.hpp>
#include <gyre/engines/work/queue.hpp>
#include <gyre/engines/work/work_test_support.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/shielded.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/stop_when.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace worker_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::test::code_of;
using gyre::work::errc;
using gyre::work::handler_options;
using gyre::work::job;
using gyre::work::job_state;
using gyre::work::new_job;
using gyre::work::once;
using gyre::work::submitted_job;
using gyre::work::worker;
using testing::HasSubstr;

constexpr gyre::exponential_backoff at_once{.initial = 0ms, .longest = 0ms};

struct Worker : gyre::test::work_test {
  /// As other workers do after the lease of all workers has ended.
  task<> take_over_all() {
    co_await db.execute("update work.worker set lease_ms = 1, lease_until = '-infinity'");
    co_await wait_until("select pg_postmaster_start_time() + interval '1 s' < clock_timestamp()");
    co_await db.execute("select work.take_over(1000, 1000000)");
  }
  /// Waits until the only registered worker has extended its lease so often.
  task<> wait_for_beats(int count) {
    for (; count > 0; --count) {
      const auto seen = co_await db.query_one<std::string>(
          "select 'id = ' || id || ' and lease_until > ' || quote_literal(lease_until)"
          " from work.worker");
      co_await wait_until("select " + seen + " from work.worker");
    }
  }
  task<int> count_effects() { return db.query_one<int>("select count(*) from effect"); }
};

TEST_F(Worker, GivesResultsOfHandlers) {
  run([](Worker& test) -> task<> {
    worker worker(test.db, {.name = "tester"});
    worker.handle("text", [](job& current) -> task<std::string> {
      co_return current.kind() + std::to_string(current.attempt()) + current.payload() +
          current.key();
    });
    worker.handle("nothing", [](job&) -> task<> { co_return; });
    worker.handle("literal", [](job&) -> task<const char*> { co_return "constant"; });
    const auto text = co_await test.jobs.submit(test.db, "text", "-p-", {.key = "k"});
    const auto nothing = co_await test.jobs.submit(test.db, "nothing", "", {.keep = 1h});
    const auto literal = co_await test.jobs.submit(test.db, "literal", "", {.keep = 1h});
    co_await with_worker(worker, [&]() -> task<> {
      EXPECT_EQ(co_await test.jobs.result(text.id), "text1-p-k");
      EXPECT_EQ(co_await test.jobs.result(nothing.id), "");
      EXPECT_EQ(co_await test.jobs.result(literal.id), "constant");
      EXPECT_EQ(co_await test.db.query_one<std::string>("select name from work.worker"), "tester");
    });
    EXPECT_EQ(worker.metrics().finished, 3u);
    EXPECT_EQ(worker.metrics().errors, 0u) << worker.metrics().last_error;
  }(*this));
}

TEST_F(Worker, IsWokenBySubmissions) {
  run([](Worker& test) -> task<> {
    worker worker(test.db, {.poll_interval = 1h});  // longer than the test
    worker.handle("echo", [](job& current) -> task<std::string> { co_return current.payload(); });
    co_await with_worker(worker, [&]() -> task<> {
      for (int n = 0; n != 20; ++n) {
        co_await test.wait_until("select waits = '{echo}' from work.worker");
        const auto made = co_await test.jobs.submit(test.db, "echo", "a", {.keep = 1h});
        EXPECT_EQ(co_await test.jobs.result(made.id), "a");
      }
    });
  }(*this));
}

TEST_F(Worker, IsWokenForAKindWhileAnotherHasJobs) {
  run([](Worker& test) -> task<> {
    const auto echo = [](job& current) -> task<std::string> { co_return current.payload(); };
    worker worker(test.db, {.poll_interval = 1h});  // longer than the test
    worker.handle("busy", echo);
    worker.handle("idle", echo);
    co_await with_worker(worker, [&]() -> task<> {
      for (int n = 0; n != 20; ++n) {
        const auto busy = co_await test.jobs.submit(test.db, "busy", "a", {.keep = 1h});
        EXPECT_EQ(co_await test.jobs.result(busy.id), "a");
        co_await test.wait_until("select waits = '{busy,idle}' from work.worker");
        const auto idle = co_await test.jobs.submit(test.db, "idle", "b", {.keep = 1h});
        EXPECT_EQ(co_await test.jobs.result(idle.id), "b");
      }
    });
    EXPECT_EQ(co_await test.db.query_one<int>("select count(*) from work.worker"), 0);
  }(*this));
}

TEST_F(Worker, ScheduledJobsAreNotForgottenWhileAnotherKindHasJobs) {
  run([](Worker& test) -> task<> {
    const auto echo = [](job& current) -> task<std::string> { co_return current.payload(); };
    worker worker(test.db, {.poll_interval = 1h});  // longer than the test
    worker.handle("busy", echo);
    worker.handle("later", echo);
    co_await with_worker(worker, [&]() -> task<> {
      const auto now = co_await test.db.query_one<gyre::work::server_time>("select now()");
      const auto later =
          co_await test.jobs.submit(test.db, "later", "l", {.run_at = now + 500ms, .keep = 1h});
      const auto busy = co_await test.jobs.submit(test.db, "busy", "b", {.keep = 1h});
      EXPECT_EQ(co_await test.jobs.result(busy.id), "b");
      EXPECT_EQ(co_await test.jobs.result(later.id), "l");
    });
  }(*this));
}

TEST_F(Worker, SleepsWhileThereAreNoJobs) {
  run([](Worker& test) -> task<> {
    worker worker(test.db, {.poll_interval = 1h});  // longer than the test
    worker.handle("echo", [](job& current) -> task<std::string> { co_return current.payload(); });
    co_await with_worker(worker, [&]() -> task<> {
      co_await test.wait_until("select waits = '{echo}' from work.worker");
      for (int n = 0; n != 200; ++n) co_await test.db.execute("select 1");
      // The first one, the early looks, and one when the notifications have begun.
      EXPECT_LE(worker.metrics().takes, 6u);
    });
  }(*this));
}

TEST_F(Worker, LooksSeldomForADueJobThatATransactionHasLocked) {
  run([](Worker& test) -> task<> {
    const auto now = co_await test.db.query_one<gyre::work::server_time>("select now()");
    const auto made =
        co_await test.jobs.submit(test.db, "later", "l", {.run_at = now + 1h, .keep = 1h});
    co_await test.db.execute("update work.job set run_at = now()");
    gyre::postgres::session own = co_await test.db.acquire_session();
    co_await own.execute("begin");
    co_await own.execute("select from work.job for update");
    worker worker(test.db, {.poll_interval = 1h});  // longer than the test
    worker.handle("later", [](job& current) -> task<std::string> { co_return current.payload(); });
    co_await with_worker(worker, [&]() -> task<> {
      co_await test.wait_until("select waits = '{later}' from work.worker");
      for (int n = 0; n != 200; ++n) co_await test.db.execute("select 1");
      EXPECT_LE(worker.metrics().takes, 50u);  // the delay doubles
      co_await own.execute("commit");
      EXPECT_EQ(co_await test.jobs.result(made.id), "l");
    });
  }(*this));
}

TEST_F(Worker, StoresTheOtherEndsThoughOneIsRefused) {
  run([](Worker& test) -> task<> {
    co_await test.db.execute_script(
        "create function refuse() returns trigger language plpgsql as $$"
        " begin raise exception 'refused' using errcode = 'GW001'; end $$;"
        "create trigger refuse before delete on work.job for each row"
        " when (old.kind = 'bad') execute function refuse()");
    worker worker(test.db);
    worker.handle("bad", [](job&) -> task<> { co_return; });
    worker.handle("good", [](job&) -> task<> { co_return; });
    std::vector<new_job> ten(10);
    co_await test.jobs.submit(test.db, "bad", "");
    co_await test.jobs.submit_many(test.db, "good", ten);
    co_await with_worker(worker, [&]() -> task<> {
      co_await test.wait_until("select not exists (select from work.job where kind = 'good')");
      EXPECT_EQ(co_await test.db.query_one<int>("select count(*) from work.job"), 1);
      co_await test.db.execute("drop trigger refuse on work.job");
      co_await test.wait_until("select not exists (select from work.job)");
    });
    EXPECT_EQ(worker.metrics().finished, 11u);
    EXPECT_EQ(worker.metrics().lost, 0u);
  }(*this));
}

TEST_F(Worker, KeepsItsLeaseBehindAStatementOfAHandler) {
  run([](Worker& test) -> task<> {
    gyre::postgres::client_options options = test.options();
    options.max_shared = 1;
    options.max_open = 1;
    gyre::postgres::client narrow(test.loop, options);
    gyre::postgres::session own = co_await test.db.acquire_session();
    co_await own.execute("select pg_advisory_lock(7)");
    worker worker(narrow, {.lease = 6s});
    worker.handle("wait",
                  [&](job&) -> task<> { co_await narrow.execute("select pg_advisory_lock(7)"); });
    co_await test.jobs.submit(test.db, "wait", "");
    co_await with_worker(worker, [&]() -> task<> {
      co_await test.wait_until("select exists (select from pg_locks where not granted)");
      co_await test.wait_for_beats(2);
      co_await own.execute("select pg_advisory_unlock(7)");
    });
    EXPECT_EQ(worker.metrics().finished, 1u);
  }(*this));
}

TEST_F(Worker, KeepsItsLeaseAndSchedulesWhileHandlersHoldAllConnections) {
  run([](Worker& test) -> task<> {
    gyre::postgres::client_options options = test.options();
    options.max_open = 1;
    gyre::postgres::client narrow(test.loop, options);
    gyre::manual_reset_event began;
    gyre::manual_reset_event go;
    worker worker(narrow, {.lease = 6s});
    worker.handle("hold", [&](job&) -> task<> {
      gyre::postgres::session own = co_await narrow.acquire_session();
      began.set();
      co_await go.wait();
    });
    co_await test.jobs.submit(test.db, "hold", "");
    co_await with_worker(worker, [&]() -> task<> {
      co_await began.wait();
      co_await test.jobs.set_schedule(test.db, "s", {.kind = "other", .cron = "0 0 1 1 *"});
      co_await test.wait_until("select next_at is not null from work.schedule");
      co_await test.wait_for_beats(2);
      go.set();
    });
    EXPECT_EQ(worker.metrics().finished, 1u);
  }(*this));
}

TEST_F(Worker, KeepsItsLeaseWhileATransactionCancelsAJobWithProgress) {
  run([](Worker& test) -> task<> {
    gyre::manual_reset_event began;
    gyre::manual_reset_event locked;
    gyre::manual_reset_event never;
    worker worker(test.db, {.lease = 6s});
    worker.handle("steps", [&](job& current) -> task<> {
      began.set();
      co_await locked.wait();
      current.report_progress(0.5);
      co_await never.wait();
    });
    const auto made = co_await test.jobs.submit(test.db, "steps", "", {.keep = 1h});
    co_await with_worker(worker, [&]() -> task<> {
      co_await began.wait();
      gyre::postgres::session own = co_await test.db.acquire_session();
      co_await own.execute("begin");
      co_await own.execute("select work.cancel($1)", made.id);
      locked.set();
      co_await test.wait_for_beats(2);
      co_await own.execute("commit");
      EXPECT_EQ(co_await code_of(test.jobs.result(made.id)), errc::job_cancelled);
    });
    EXPECT_EQ(worker.metrics().errors, 0u) << worker.metrics().last_error;
  }(*this));
}

TEST_F(Worker, CancelsAHandlerThatWaitsInATransactionAfterOnce) {
  run([](Worker& test) -> task<> {
    gyre::manual_reset_event began;
    gyre::manual_reset_event never;
    worker worker(test.db);
    worker.handle("effect", [&](job&) -> task<> {
      const auto body = [&](gyre::postgres::transaction& tx) -> task<> {
        static_cast<void>(co_await once(tx, "effect"));
        began.set();
        co_await never.wait();
      };
      co_await test.db.transaction(body);
    });
    const auto made = co_await test.jobs.submit(test.db, "effect", "", {.keep = 1h});
    co_await with_worker(worker, [&]() -> task<> {
      co_await began.wait();
      const auto result = co_await test.jobs.cancel(test.db, made.id);
      EXPECT_EQ(result, gyre::work::cancel_result::requested);
      EXPECT_EQ(co_await code_of(test.jobs.result(made.id)), errc::job_cancelled);
    });
    EXPECT_EQ(co_await test.db.query_one<int>("select count(*) from work.done"), 0);
  }(*this));
}

TEST_F(Worker, StopsHandlersWhenTheLeaseEndsThoughABeatIsUnderWay) {
  run([](Worker& test) -> task<> {
    gyre::manual_reset_event began;
    gyre::manual_reset_event stopped;
    gyre::manual_reset_event never;
    worker worker(test.db, {.lease = 1s, .statement_timeout = 1h});
    worker.handle("wait", [&](job&) -> task<> {
      began.set();
      try {
        co_await never.wait();
      } catch (...) {
        stopped.set();
        throw;
      }
    });
    co_await test.jobs.submit(test.db, "wait", "");
    gyre::postgres::session own = co_await test.db.acquire_session();
    co_await with_worker(worker, [&]() -> task<> {
      co_await began.wait();
      co_await own.execute("begin");
      co_await own.execute("select from work.worker for update");
      co_await stopped.wait();
      EXPECT_GE(worker.metrics().leases_lost, 1u);
      worker.drain();
      co_await own.execute("rollback");
    });
  }(*this));
}

TEST_F(Worker, EndsThoughTheServerDoesNotAnswerTheCheckOfTheSchema) {
  run([](Worker& test) -> task<> {
    gyre::postgres::session own = co_await test.db.acquire_session();
    co_await own.execute("begin");
    co_await own.execute("lock table work.version");
    const gyre::work::worker_options short_statements{.statement_timeout = 50ms};
    const gyre::work::worker_options short_drain{.drain_timeout = 10ms, .statement_timeout = 1h};
    gyre::postgres::client other(test.loop, test.options());
    for (const auto& options : {short_statements, short_drain}) {
      worker worker(other, options);
      worker.handle("nothing", [](job&) -> task<> { co_return; });
      co_await with_worker(worker, [&]() -> task<> {
        co_await test.wait_until("select exists (select from pg_locks where not granted)");
      });
      EXPECT_EQ(worker.metrics().taken, 0u);
    }
    co_await own.execute("rollback");
  }(*this));
}

TEST_F(Worker, RemovesOldRowsWithoutAPauseAfterEachThousand) {
  run([](Worker& test) -> task<> {
    co_await test.db.execute(
        "insert into work.done select n::text, now() - interval '1 year'"
        " from generate_series(1, 5500) n");
    co_await test.jobs.set_schedule(test.db, "s", {.kind = "other", .cron = "0 0 1 1 *"});
    worker worker(test.db);
    worker.handle("nothing", [](job&) -> task<> { co_return; });
    co_await with_worker(worker, [&]() -> task<> {
      // Schedules come last in each turn.
      co_await test.wait_until("select next_at is not null from work.schedule");
      EXPECT_EQ(co_await test.db.query_one<int>("select count(*) from work.done"), 0);
    });
  }(*this));
}

TEST_F(Worker, ProgressThatIsNoNumberIsNone) {
  run([](Worker& test) -> task<> {
    gyre::manual_reset_event seen;
    worker worker(test.db, {.lease = 1s});
    worker.handle("steps", [&](job& current) -> task<> {
      current.report_progress(std::numeric_limits<double>::quiet_NaN(), "unknown");
      co_await seen.wait();
    });
    const auto made = co_await test.jobs.submit(test.db, "steps", "", {.keep = 1h});
    co_await with_worker(worker, [&]() -> task<> {
      co_await test.wait_until("select progress_note = 'unknown' from work.job");
      EXPECT_EQ((co_await test.jobs.status(made.id)).value().progress, 0.0);
      seen.set();
    });
  }(*this));
}

TEST_F(Worker, RetriesUntilTheJobIsDead) {
  run([](Worker& test) -> task<> {
    std::vector<int> failures;
    worker worker(test.db);
    worker.handle("fail",
                  [&](job& current) -> task<> {
                    failures.push_back(current.failures());
                    EXPECT_EQ(current.max_attempts(), 3);
                    throw std::runtime_error("failure " + std::to_string(current.attempt()));
                    co_return;
                  },
                  {.delay = {.initial = 10ms, .longest = 20ms}});
    const auto made = co_await test.jobs.submit(test.db, "fail", "", {.max_attempts = 3});
    co_await with_worker(worker, [&]() -> task<> {
      EXPECT_EQ(co_await code_of(test.jobs.result(made.id)), errc::job_dead);
    });
    EXPECT_EQ(failures, (std::vector{0, 1, 2}));
    const auto status = co_await test.jobs.status(made.id);
    EXPECT_EQ(status.value().error, "failure 3");
    EXPECT_EQ(worker.metrics().failed, 3u);
  }(*this));
}

TEST_F(Worker, LimitsTheTimeOfAnAttempt) {
  run([](Worker& test) -> task<> {
    gyre::manual_reset_event never;
    worker worker(test.db);
    worker.handle("wait", [&](job&) -> task<> { co_await never.wait(); },
                  {.time_limit = 20ms, .delay = at_once});
    worker.handle("short", [&](job&) -> task<> { co_await never.wait(); }, {.delay = at_once});
    const auto first = co_await test.jobs.submit(test.db, "wait", "", {.max_attempts = 2});
    const auto second =
        co_await test.jobs.submit(test.db, "short", "", {.max_attempts = 1, .time_limit = 20ms});
    co_await with_worker(worker, [&]() -> task<> {
      EXPECT_EQ(co_await code_of(test.jobs.result(first.id)), errc::job_dead);
      EXPECT_EQ(co_await code_of(test.jobs.result(second.id)), errc::job_dead);
    });
    const auto status = co_await test.jobs.status(first.id);
    EXPECT_THAT(status.value().error, HasSubstr("20 ms"));
    EXPECT_EQ(status->failures, 2);
  }(*this));
}

TEST_F(Worker, ErrorsAreStoredAsThePrintableBeginning) {
  run([](Worker& test) -> task<> {
    worker worker(test.db);
    worker.handle("bad", [](job&) -> task<> {
      throw gyre::work::permanent_failure(std::string("\xff\xc3") + std::string(100'000, 'x'));
      co_return;
    });
    worker.handle("odd", [](job&) -> task<> {
      throw 7;
      co_return;
    });
    worker.handle("cancelled", [](job&) -> task<> {
      throw gyre::operation_cancelled();
      co_return;
    });
    worker.handle("large", [](job&) -> task<std::string> {
      co_return std::string(gyre::work::queue::max_payload + 1, 'x');
    });
    const gyre::work::submit_options once_only{.max_attempts = 1};
    const auto bad = co_await test.jobs.submit(test.db, "bad", "");
    const auto odd = co_await test.jobs.submit(test.db, "odd", "", once_only);
    const auto cancelled = co_await test.jobs.submit(test.db, "cancelled", "", once_only);
    const auto large = co_await test.jobs.submit(test.db, "large", "");
    co_await with_worker(worker, [&]() -> task<> {
      for (const submitted_job& each : {bad, odd, cancelled, large}) {
        EXPECT_EQ(co_await code_of(test.jobs.result(each.id)), errc::job_dead);
      }
    });
    const auto status = co_await test.jobs.status(bad.id);
    EXPECT_EQ(status.value().error.size(), 4000u);
    EXPECT_THAT(status->error, testing::StartsWith("??xxx"));
    EXPECT_THAT((co_await test.jobs.status(large.id)).value().error, HasSubstr("1048577 bytes"));
  }(*this));
}

TEST_F(Worker, ShowsProgressToWatchers) {
  run([](Worker& test) -> task<> {
    gyre::manual_reset_event seen;
    worker worker(test.db, {.lease = 1s});
    worker.handle("steps", [&](job& current) -> task<std::string> {
      current.report_progress(0.25, "a quarter");
      current.report_progress(0.5, "half");
      co_await seen.wait();
      co_return "done";
    });
    const auto made = co_await test.jobs.submit(test.db, "steps", "", {.keep = 1h});
    co_await with_worker(worker, [&]() -> task<> {
      auto changes = test.jobs.watch(made.id);
      job_state last = job_state::ready;
      while (auto* status = co_await changes.next()) {
        last = status->state;
        if (status->progress == 0.5 && status->progress_note == "half") seen.set();
      }
      EXPECT_EQ(last, job_state::finished);
    });
    EXPECT_TRUE(seen.is_set());
    EXPECT_EQ((co_await test.jobs.status(made.id)).value().progress, 1.0);
  }(*this));
}

TEST_F(Worker, DrainsByAwaitingItsHandlers) {
  run([](Worker& test) -> task<> {
    gyre::manual_reset_event began;
    gyre::manual_reset_event go;
    worker worker(test.db);
    worker.handle("wait",
                  [&](job&) -> task<> {
                    began.set();
                    co_await go.wait();
                  },
                  {.max_running = 1});
    const auto first = co_await test.jobs.submit(test.db, "wait", "", {.keep = 1h});
    const auto second = co_await test.jobs.submit(test.db, "wait", "", {.keep = 1h});
    co_await with_worker(worker, [&]() -> task<> {
      co_await began.wait();
      worker.drain();
      worker.drain();
      go.set();
    });
    EXPECT_EQ((co_await test.jobs.status(first.id)).value().state, job_state::finished);
    EXPECT_EQ((co_await test.jobs.status(second.id)).value().state, job_state::ready);
    EXPECT_EQ(worker.metrics().finished, 1u);
  }(*this));
}

TEST_F(Worker, DrainReleasesJobsWhoseHandlersTakeTooLong) {
  run([](Worker& test) -> task<> {
    gyre::manual_reset_event began;
    gyre::manual_reset_event never;
    worker worker(test.db, {.drain_timeout = 10ms});
    worker.handle("wait", [&](job&) -> task<> {
      began.set();
      co_await never.wait();
    });
    const auto made = co_await test.jobs.submit(test.db, "wait", "");
    co_await with_worker(worker, [&]() -> task<> { co_await began.wait(); });
    const auto status = co_await test.jobs.status(made.id);
    EXPECT_EQ(status.value().state, job_state::ready);
    EXPECT_EQ(status->failures, 0);
    EXPECT_EQ(worker.metrics().released, 1u);
  }(*this));
}

TEST_F(Worker, StopDrainsToo) {
  run([](Worker& test) -> task<> {
    gyre::inplace_stop_source stop;
    worker worker(test.db);
    worker.handle("stop", [&](job&) -> task<> {
      stop.request_stop();
      co_return;
    });
    const auto made = co_await test.jobs.submit(test.db, "stop", "", {.keep = 1h});
    const auto code = co_await code_of(gyre::stop_when(worker.run(), stop.get_token()));
    EXPECT_EQ(code, std::errc::operation_canceled);
    EXPECT_EQ((co_await test.jobs.status(made.id)).value().state, job_state::finished);
    EXPECT_THROW(co_await worker.run(), std::logic_error);
  }(*this));
}

TEST_F(Worker, RunsHandlersOnAPool) {
  run([](Worker& test) -> task<> {
    gyre::thread_pool pool(2);
    const auto loop_thread = std::this_thread::get_id();
    worker worker(test.db);
    worker.handle("compute",
                  [&](job& current) -> task<std::string> {
                    EXPECT_NE(std::this_thread::get_id(), loop_thread);
                    current.report_progress(0.5);
                    co_return "computed";
                  },
                  {.executor = &pool});
    std::vector<new_job> many(100);
    const auto batch = co_await test.jobs.submit_batch(test.db, "compute", many);
    co_await with_worker(worker, [&]() -> task<> {
      EXPECT_EQ((co_await test.jobs.wait_for_batch(batch)).finished, 100);
    });
  }(*this));
}

TEST_F(Worker, OnceMakesTheEffectOnceThoughTheHandlerFailsAfterIt) {
  run([](Worker& test) -> task<> {
    co_await test.db.execute("create table effect (name text)");
    std::vector<bool> results;
    worker worker(test.db);
    worker.handle("effect",
                  [&](job& current) -> task<> {
                    const auto body = [&](gyre::postgres::transaction& tx) -> task<bool> {
                      const bool is_first = co_await once(tx, "effect");
                      if (is_first) co_await tx.execute("insert into effect values ('a')");
                      co_return is_first;
                    };
                    results.push_back(co_await test.db.transaction(body));
                    if (current.attempt() < 3) throw std::runtime_error("after the effect");
                  },
                  {.delay = at_once});
    const auto made = co_await test.jobs.submit(test.db, "effect", "", {.keep = 1h});
    co_await with_worker(worker, [&]() -> task<> { co_await test.jobs.result(made.id); });
    EXPECT_EQ(results, (std::vector{true, false, false}));
    EXPECT_EQ(co_await test.count_effects(), 1);
  }(*this));
}

TEST_F(Worker, OnceOutsideOfHandlersGoesByTheKeyAlone) {
  run([](Worker& test) -> task<> {
    const auto try_once = [&](gyre::postgres::transaction& tx) -> task<bool> {
      co_return co_await once(tx, "k");
    };
    const auto fail_after = [&](gyre::postgres::transaction& tx) -> task<bool> {
      EXPECT_TRUE(co_await once(tx, "k"));
      throw std::runtime_error("rolled back");
    };
    auto failing = gyre::as_result(test.db.transaction(fail_after));
    EXPECT_FALSE((co_await std::move(failing)).has_value());
    EXPECT_TRUE(co_await test.db.transaction(try_once));
    EXPECT_FALSE(co_await test.db.transaction(try_once));
  }(*this));
}

TEST_F(Worker, LateWorkerCannotCommit) {
  run([](Worker& test) -> task<> {
    co_await test.db.execute("create table effect (name text)");
    gyre::manual_reset_event began;
    gyre::manual_reset_event go;
    std::vector<std::error_code> codes;
    worker worker(test.db, {.lease = 60s});
    worker.handle("effect", [&](job& current) -> task<> {
      // Shielded: the worker asks a late handler to stop.
      const auto make_effect = [&]() -> task<> {
        if (current.attempt() == 1) {
          began.set();
          co_await go.wait();
        }
        const auto body = [&](gyre::postgres::transaction& tx) -> task<> {
          co_await tx.execute("insert into effect values ($1)", std::to_string(current.attempt()));
          EXPECT_TRUE(co_await once(tx, "effect"));
        };
        codes.push_back(co_await code_of(test.db.transaction(body)));
      };
      co_await gyre::shielded(make_effect());
    });
    const auto made = co_await test.jobs.submit(test.db, "effect", "", {.keep = 1h});
    co_await with_worker(worker, [&]() -> task<> {
      co_await began.wait();
      co_await test.take_over_all();
      go.set();
      co_await test.jobs.result(made.id);
    });
    EXPECT_EQ(codes.size(), 2u);
    EXPECT_EQ(std::ranges::count(codes, std::error_code(errc::attempt_taken_over)), 1);
    EXPECT_EQ(std::ranges::count(codes, std::error_code()), 1);
    EXPECT_EQ(co_await test.db.query_one<std::string>("select name from effect"), "2");
    EXPECT_EQ(worker.metrics().leases_lost, 1u);
    EXPECT_EQ(worker.metrics().lost, 1u);
    EXPECT_EQ((co_await test.jobs.status(made.id)).value().failures, 1);
  }(*this));
}

TEST_F(Worker, JobOfATransactionThatCheckedTheTokenIsNotTakenOver) {
  run([](Worker& test) -> task<> {
    co_await test.db.execute("create table effect (name text)");
    worker worker(test.db, {.lease = 60s});
    worker.handle("effect", [&](job& current) -> task<> {
      const auto body = [&](gyre::postgres::transaction& tx) -> task<> {
        EXPECT_TRUE(co_await once(tx, "effect"));
        if (current.attempt() == 1) co_await test.take_over_all();
        co_await tx.execute("insert into effect values ($1)", std::to_string(current.attempt()));
      };
      co_await gyre::shielded(test.db.transaction(body));
    });
    const auto made = co_await test.jobs.submit(test.db, "effect", "", {.keep = 1h});
    co_await with_worker(worker, [&]() -> task<> {
      const auto result = co_await gyre::as_result(test.jobs.result(made.id));
      EXPECT_TRUE(result.has_value());
    });
    EXPECT_EQ(co_await test.db.query_one<std::string>("select name from effect"), "1");
  }(*this));
}

TEST_F(Worker, AHangingTransactionIsEndedAfterTheLease) {
  run([](Worker& test) -> task<> {
    gyre::manual_reset_event never;
    // On a slow machine the lease of the first run may end before it begins, so that another
    // attempt ends first, or meanwhile, which stops the run.
    bool has_begun = false;
    bool has_first_failed = false;
    worker worker(test.db, {.lease = 1s});
    worker.handle(
        "hang",
        [&](job& current) -> task<> {
          const bool is_first = !std::exchange(has_begun, true);
          const auto body = [&](gyre::postgres::transaction& tx) -> task<> {
            static_cast<void>(co_await once(tx, "hang" + std::to_string(current.attempt())));
            if (!is_first) co_return;
            co_await test.wait_until(
                "select not exists (select from pg_stat_activity"
                " where state = 'idle in transaction')");
            co_await tx.execute("select 1");
          };
          auto transaction = gyre::as_result(test.db.transaction(body, {.max_attempts = 1}));
          const auto ended = co_await std::move(transaction);
          if (is_first) has_first_failed = !ended;
        },
        {.delay = at_once});
    const auto made = co_await test.jobs.submit(test.db, "hang", "", {.keep = 1h});
    co_await with_worker(worker, [&]() -> task<> { co_await test.jobs.result(made.id); });
    EXPECT_TRUE(has_first_failed);
  }(*this));
}

TEST_F(Worker, TakesJobsBackWhoseTakeWasNotAnswered) {
  run([](Worker& test) -> task<> {
    // Long enough that a slow machine does not let it expire, which would count as a failure.
    worker worker(test.db, {.lease = 6s});
    worker.handle("echo", [](job& current) -> task<std::string> { co_return current.payload(); });
    co_await with_worker(worker, [&]() -> task<> {
      co_await test.wait_until("select waits = '{echo}' from work.worker");
      // As if the reply to its take() had been lost.
      const auto body = [&](gyre::postgres::transaction& tx) -> task<std::int64_t> {
        const auto id = co_await tx.query_one<std::int64_t>(
            "select id from work.submit('echo', 'lost', keep_ms => 1000000)");
        co_await tx.execute("select work.take(id, '{echo}', '{1}', 1) from work.worker");
        co_return id;
      };
      const auto id = co_await test.db.transaction(body);
      EXPECT_EQ(co_await test.jobs.result(id), "lost");
      EXPECT_EQ((co_await test.jobs.status(id)).value().attempt, 2);
      EXPECT_EQ((co_await test.jobs.status(id)).value().failures, 0);
    });
  }(*this));
}

TEST_F(Worker, GoesOnAfterTheServerWasKilled) {
  run([](Worker& test) -> task<> {
    co_await test.db.execute("create table effect (name text)");
    int ran = 0;
    gyre::manual_reset_event some_ran;
    worker worker(test.db, {.lease = 5s, .statement_timeout = 2s});
    worker.handle("effect",
                  [&](job& current) -> task<> {
                    const auto body = [&](gyre::postgres::transaction& tx) -> task<> {
                      const bool is_first = co_await once(tx, current.payload());
                      if (is_first)
                        co_await tx.execute("insert into effect values ($1)", current.payload());
                    };
                    co_await test.db.transaction(body);
                    if (++ran == 20) some_ran.set();
                  },
                  {.max_running = 8, .delay = {.initial = 10ms, .longest = 100ms}});
    std::vector<new_job> many(200);
    for (std::size_t n = 0; n != many.size(); ++n) many[n].payload = std::to_string(n);
    co_await test.jobs.submit_many(test.db, "effect", many);
    co_await with_worker(worker, [&]() -> task<> {
      co_await some_ran.wait();
      co_await test.server.kill();
      co_await test.server.start_again();
      while (true) {
        auto attempt = gyre::as_result(test.db.query_one<int>("select count(*) from work.job"));
        const auto left = co_await std::move(attempt);
        if (left && *left == 0) break;
        co_await gyre::sleep_for(10ms);
      }
    });
    EXPECT_EQ(co_await test.count_effects(), 200);
    EXPECT_EQ(co_await test.db.query_one<int>("select count(distinct name) from effect"), 200);
  }(*this));
}

TEST_F(Worker, RefusesOptionsThatMakeNoSense) {
  const auto handler = [](job&) -> task<> { co_return; };
  EXPECT_THROW(worker(db, {.lease = 999ms}), std::invalid_argument);
  EXPECT_THROW(worker(db, {.max_running = 0}), std::invalid_argument);
  EXPECT_THROW(worker(db, {.poll_interval = 0s}), std::invalid_argument);
  EXPECT_THROW(worker(db, {.statement_timeout = 0s}), std::invalid_argument);
  EXPECT_THROW(worker(db, {.keep_dead = -1s}), std::invalid_argument);
  worker one(db);
  EXPECT_THROW(one.handle("", handler), std::invalid_argument);
  EXPECT_THROW(one.handle(std::string(201, 'x'), handler), std::invalid_argument);
  EXPECT_THROW(one.handle("k", handler, {.max_running = 0}), std::invalid_argument);
  EXPECT_THROW(one.handle("k", handler, {.time_limit = 0s}), std::invalid_argument);
  one.handle("k", handler);
  EXPECT_THROW(one.handle("k", handler), std::invalid_argument);
}

}  // namespace
}  // namespace worker_test

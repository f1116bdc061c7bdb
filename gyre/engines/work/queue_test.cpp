// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/work/queue.hpp>

#include <gyre/engines/postgres/transaction.hpp>
#include <gyre/engines/work/error.hpp>
#include <gyre/engines/work/migrate.hpp>
#include <gyre/engines/work/work_test_support.hpp>
#include <gyre/engines/work/worker.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/when_all.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace queue_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::test::code_of;
using gyre::work::cancel_result;
using gyre::work::errc;
using gyre::work::job;
using gyre::work::job_state;
using gyre::work::new_job;
using gyre::work::queue;
using gyre::work::submitted_job;
using gyre::work::worker;
using testing::ElementsAre;
using testing::HasSubstr;

struct WorkQueue : gyre::test::work_test {};

task<std::string> echo(job& current) { co_return current.payload(); }

TEST_F(WorkQueue, MigratesFromManyProgramsAtOnce) {
  run([](WorkQueue& test) -> task<> {
    co_await test.db.execute("drop schema work cascade");
    gyre::postgres::client other(test.loop, test.options());
    gyre::postgres::client third(test.loop, test.options());
    co_await gyre::when_all(gyre::work::migrate(test.db), gyre::work::migrate(other),
                            gyre::work::migrate(third), gyre::work::migrate(third));
    EXPECT_EQ(co_await test.db.query_one<int>("select count(*) from work.version"), 1);
    EXPECT_EQ(co_await test.db.query_one<int>("select count(*) from work.job"), 0);
  }(*this));
}

TEST_F(WorkQueue, SubmissionIsPartOfTheTransaction) {
  run([](WorkQueue& test) -> task<> {
    const auto submit_and_fail = [&](gyre::postgres::transaction& tx) -> task<> {
      co_await test.jobs.submit(tx, "echo", "a");
      throw std::runtime_error("rolled back");
    };
    auto attempt = gyre::as_result(test.db.transaction(submit_and_fail));
    EXPECT_FALSE((co_await std::move(attempt)).has_value());
    EXPECT_EQ(co_await test.db.query_one<int>("select count(*) from work.job"), 0);

    const auto submit = [&](gyre::postgres::transaction& tx) -> task<submitted_job> {
      co_return co_await test.jobs.submit(tx, "echo", std::string("a\0\xff", 3));
    };
    const submitted_job made = co_await test.db.transaction(submit);
    const auto status = co_await test.jobs.status(made.id);
    EXPECT_EQ(status.value().state, job_state::ready);
    EXPECT_EQ(status->kind, "echo");
    EXPECT_EQ(status->attempt, 0);
  }(*this));
}

TEST_F(WorkQueue, KeyGivesTheJobThatHasIt) {
  run([](WorkQueue& test) -> task<> {
    const auto first = co_await test.jobs.submit(test.db, "echo", "a", {.key = "k"});
    const auto second = co_await test.jobs.submit(test.db, "echo", "b", {.key = "k"});
    const auto other = co_await test.jobs.submit(test.db, "other", "b", {.key = "k"});
    EXPECT_TRUE(first.is_new);
    EXPECT_FALSE(second.is_new);
    EXPECT_EQ(first.id, second.id);
    EXPECT_TRUE(other.is_new);

    worker worker(test.db);
    worker.handle("echo", echo);
    co_await with_worker(worker, [&]() -> task<> {
      EXPECT_EQ(co_await test.jobs.result(first.id), "a");
      const auto late = co_await test.jobs.submit(test.db, "echo", "c", {.key = "k"});
      EXPECT_EQ(late.id, first.id);  // its row is kept for a day
    });
  }(*this));
}

TEST_F(WorkQueue, KeysOfConcurrentTransactionsMakeOneJob) {
  run([](WorkQueue& test) -> task<> {
    std::vector<task<submitted_job>> submissions;
    for (int n = 0; n != 8; ++n) {
      submissions.push_back([](WorkQueue& self) -> task<submitted_job> {
        const auto body = [&](gyre::postgres::transaction& tx) -> task<submitted_job> {
          co_return co_await self.jobs.submit(tx, "echo", "a", {.key = "k"});
        };
        co_return co_await self.db.transaction(body);
      }(test));
    }
    const auto made = co_await gyre::when_all(std::move(submissions));
    int fresh = 0;
    for (const submitted_job& each : made) {
      fresh += each.is_new ? 1 : 0;
      EXPECT_EQ(each.id, made[0].id);
    }
    EXPECT_EQ(fresh, 1);
  }(*this));
}

TEST_F(WorkQueue, SubmitsManyInTheirOrder) {
  run([](WorkQueue& test) -> task<> {
    std::vector<new_job> plain(100);
    for (std::size_t n = 0; n != 100; ++n) plain[n].payload = std::to_string(n);
    const auto made = co_await test.jobs.submit_many(test.db, "echo", plain);
    EXPECT_EQ(made.size(), 100u);
    for (std::size_t n = 1; n < made.size(); ++n) EXPECT_LT(made[n - 1].id, made[n].id);
    const auto payload = co_await test.db.query_one<std::string>(
        "select payload from work.job where id = $1", made[42].id);
    EXPECT_EQ(payload, "42");

    std::vector<new_job> keyed = {{.payload = "x", .key = "z"},
                                  {.payload = "y"},
                                  {.payload = "x", .key = "a"},
                                  {.payload = "x", .key = "z"}};
    const auto mixed = co_await test.jobs.submit_many(test.db, "echo", keyed);
    EXPECT_EQ(mixed.size(), 4u);
    EXPECT_TRUE(mixed[0].is_new && mixed[1].is_new && mixed[2].is_new);
    EXPECT_FALSE(mixed[3].is_new);
    EXPECT_EQ(mixed[0].id, mixed[3].id);
    std::vector<new_job> none;
    EXPECT_TRUE((co_await test.jobs.submit_many(test.db, "echo", none)).empty());
  }(*this));
}

TEST_F(WorkQueue, TakesHigherPrioritiesFirst) {
  run([](WorkQueue& test) -> task<> {
    co_await test.jobs.submit(test.db, "note", "low");
    co_await test.jobs.submit(test.db, "note", "first", {.priority = 5});
    co_await test.jobs.submit(test.db, "note", "second", {.priority = 5});
    co_await test.jobs.submit(test.db, "note", "lowest", {.priority = -1});
    std::vector<std::string> order;
    gyre::manual_reset_event done;
    worker worker(test.db);
    worker.handle("note",
                  [&](job& current) -> task<> {
                    order.push_back(current.payload());
                    if (order.size() == 4) done.set();
                    co_return;
                  },
                  {.max_running = 1});
    co_await with_worker(worker, [&]() -> task<> { co_await done.wait(); });
    EXPECT_THAT(order, ElementsAre("first", "second", "low", "lowest"));
  }(*this));
}

TEST_F(WorkQueue, RunsScheduledJobsWhenTheyAreDue) {
  run([](WorkQueue& test) -> task<> {
    const auto now = co_await test.db.query_one<gyre::work::server_time>("select now()");
    const auto soon =
        co_await test.jobs.submit(test.db, "echo", "soon", {.run_at = now + 300ms, .keep = 1h});
    const auto later = co_await test.jobs.submit(test.db, "echo", "later", {.run_at = now + 24h});
    EXPECT_EQ((co_await test.jobs.status(later.id)).value().state, job_state::scheduled);
    // Longer than the test: the worker is told when to look.
    worker worker(test.db, {.poll_interval = 1h});
    worker.handle("echo", echo);
    co_await with_worker(worker, [&]() -> task<> {
      EXPECT_EQ(co_await test.jobs.result(soon.id), "soon");
      EXPECT_EQ((co_await test.jobs.status(later.id)).value().state, job_state::scheduled);
    });
    EXPECT_TRUE(co_await test.db.query_one<bool>(
        "select started_at >= run_at from work.job where id = $1", soon.id));
  }(*this));
}

TEST_F(WorkQueue, CancelsJobsThatWait) {
  run([](WorkQueue& test) -> task<> {
    const auto gone = co_await test.jobs.submit(test.db, "echo", "a");
    const auto kept = co_await test.jobs.submit(test.db, "echo", "a", {.keep = 1h});
    EXPECT_EQ(co_await test.jobs.cancel(test.db, gone.id), cancel_result::cancelled);
    EXPECT_EQ(co_await test.jobs.cancel(test.db, gone.id), cancel_result::unknown);
    EXPECT_EQ(co_await test.jobs.cancel(test.db, kept.id), cancel_result::cancelled);
    EXPECT_EQ(co_await code_of(test.jobs.result(kept.id)), errc::job_cancelled);
    EXPECT_EQ(co_await code_of(test.jobs.result(gone.id)), errc::unknown_job);
  }(*this));
}

TEST_F(WorkQueue, CancelsJobsThatRun) {
  run([](WorkQueue& test) -> task<> {
    gyre::manual_reset_event began;
    gyre::manual_reset_event never;
    worker worker(test.db);
    worker.handle("wait", [&](job&) -> task<> {
      began.set();
      co_await never.wait();
    });
    worker.handle("echo", echo);
    const auto made = co_await test.jobs.submit(test.db, "wait", "", {.keep = 1h});
    const auto ended = co_await test.jobs.submit(test.db, "echo", "", {.keep = 1h});
    co_await with_worker(worker, [&]() -> task<> {
      co_await began.wait();
      EXPECT_EQ(co_await test.jobs.cancel(test.db, made.id), cancel_result::requested);
      EXPECT_EQ(co_await code_of(test.jobs.result(made.id)), errc::job_cancelled);
      co_await test.jobs.result(ended.id);
      EXPECT_EQ(co_await test.jobs.cancel(test.db, ended.id), cancel_result::had_ended);
    });
    EXPECT_EQ(worker.metrics().cancelled, 1u);
  }(*this));
}

TEST_F(WorkQueue, CountsBatchesAndSubmitsTheJobAfterThem) {
  run([](WorkQueue& test) -> task<> {
    std::vector<new_job> several = {{.payload = "good"},
                                    {.payload = "bad"},
                                    {.payload = "good"},
                                    {.payload = "good", .key = "k"}};
    co_await test.jobs.submit(test.db, "maybe", "good", {.key = "k"});  // not of the batch
    const auto batch = co_await test.jobs.submit_batch(
        test.db, "maybe", several, {}, {.then_kind = "echo", .then_payload = "all ended"});
    EXPECT_EQ((co_await test.jobs.status_of_batch(batch)).size, 3);
    gyre::manual_reset_event then;
    std::string seen;
    worker worker(test.db);
    worker.handle("maybe", [](job& current) -> task<> {
      if (current.payload() == "bad") throw gyre::work::permanent_failure("no");
      co_return;
    });
    worker.handle("echo", [&](job& current) -> task<> {
      seen = current.payload();
      then.set();
      co_return;
    });
    co_await with_worker(worker, [&]() -> task<> {
      const auto status = co_await test.jobs.wait_for_batch(batch);
      EXPECT_EQ(status.finished, 2);
      EXPECT_EQ(status.dead, 1);
      EXPECT_EQ(status.pending, 0);
      co_await then.wait();
      EXPECT_EQ(seen, "all ended");
    });
    std::vector<new_job> none;
    const auto empty = co_await test.jobs.submit_batch(test.db, "maybe", none);
    EXPECT_EQ((co_await test.jobs.wait_for_batch(empty)).size, 0);
    EXPECT_EQ(co_await code_of(test.jobs.status_of_batch(empty + 1)), errc::unknown_batch);
  }(*this));
}

TEST_F(WorkQueue, ContinuationOfABatchIsAddedToAFullQueueAndIgnoresKeys) {
  run([](WorkQueue& test) -> task<> {
    co_await test.jobs.set_limits(test.db, "then", {.max_waiting = 1});
    for (const std::string key : {"batch:1", "batch:2", "batch:3"}) {
      co_await test.db.execute("delete from work.backlog");
      co_await test.jobs.submit(test.db, "then", "of a user", {.key = key});
      co_await test.jobs.set_limits(test.db, "then", {.max_waiting = 4});
    }
    co_await test.jobs.set_limits(test.db, "then", {.max_waiting = 1});
    co_await test.db.execute("select work.count_backlog('then')");
    EXPECT_EQ(co_await code_of(test.jobs.submit(test.db, "then", "")), errc::queue_full);

    const std::vector<new_job> one(1);
    for (int n = 0; n != 3; ++n) {
      co_await test.jobs.submit_batch(test.db, "part", one, {.max_attempts = 1},
                                      {.then_kind = "then", .then_payload = "all ended"});
    }
    const auto ids = co_await test.db.query<std::int64_t>(
        "select id from work.job where kind = 'part' order by id");
    EXPECT_EQ(ids.size(), 3u);
    const auto id = co_await test.db.query_one<std::int64_t>("select work.register('w', 60000)");
    co_await test.db.execute("select work.take($1, '{part}', '{2}', 2)", id);
    const std::string end =
        "select work.end_attempts($1, array[$2::bigint], '{1}', '{finished}',"
        " array[null::bytea], array[null::text], '{0}', 1000000)";
    EXPECT_FALSE(co_await code_of(test.db.execute(end, id, ids.at(0))));
    co_await test.db.execute("update work.worker set lease_ms = 1, lease_until = '-infinity'");
    EXPECT_FALSE(co_await code_of(test.db.execute("select work.take_over(1000, 1000000)")));
    EXPECT_FALSE(co_await code_of(test.jobs.cancel(test.db, ids.at(2))));
    EXPECT_EQ(co_await test.db.query_one<int>(
                  "select count(*) from work.job where kind = 'then' and payload = 'all ended'"),
              3);
    EXPECT_EQ(co_await test.db.query_one<int>("select count(*) from work.job where kind = 'part'"),
              1);  // the dead one
  }(*this));
}

TEST_F(WorkQueue, KeepsDeadJobsAndRevivesThem) {
  run([](WorkQueue& test) -> task<> {
    bool is_mended = false;
    worker worker(test.db);
    worker.handle("mend", [&](job&) -> task<std::string> {
      if (!is_mended) throw gyre::work::permanent_failure("broken");
      co_return "mended";
    });
    const auto made = co_await test.jobs.submit(test.db, "mend", "p", {.keep = 1h});
    co_await with_worker(worker, [&]() -> task<> {
      EXPECT_EQ(co_await code_of(test.jobs.result(made.id)), errc::job_dead);
      const auto dead = co_await test.jobs.dead_jobs("mend");
      EXPECT_EQ(dead.size(), 1u);
      EXPECT_EQ(dead.at(0).error, "broken");
      EXPECT_EQ(dead.at(0).failures, 1);
      EXPECT_TRUE((co_await test.jobs.dead_jobs("mend", made.id)).empty());
      is_mended = true;
      EXPECT_TRUE(co_await test.jobs.revive(test.db, made.id));
      EXPECT_EQ(co_await test.jobs.result(made.id), "mended");
      EXPECT_FALSE(co_await test.jobs.revive(test.db, made.id));
    });
  }(*this));
}

TEST_F(WorkQueue, RefusesJobsBeyondTheBacklog) {
  run([](WorkQueue& test) -> task<> {
    co_await test.jobs.set_limits(test.db, "echo", {.max_waiting = 3});
    for (int n = 0; n != 3; ++n) co_await test.jobs.submit(test.db, "echo", "");
    // The count is ten seconds old.
    co_await test.db.execute("update work.backlog set counted_at = now() - interval '10 s'");
    EXPECT_EQ(co_await code_of(test.jobs.submit(test.db, "echo", "")), errc::queue_full);
    EXPECT_FALSE(co_await code_of(test.jobs.submit(test.db, "other", "")));
    co_await test.jobs.set_limits(test.db, "echo", {.max_waiting = 4});
    co_await test.db.execute("update work.backlog set counted_at = now() - interval '10 s'");
    EXPECT_FALSE(co_await code_of(test.jobs.submit(test.db, "echo", "")));
  }(*this));
}

TEST_F(WorkQueue, LimitsAKindOverAllWorkers) {
  run([](WorkQueue& test) -> task<> {
    co_await test.jobs.set_limits(test.db, "count", {.max_running = 3});
    int running = 0;
    int most = 0;
    int done = 0;
    gyre::manual_reset_event all;
    const auto count = [&](job&) -> task<> {
      most = std::max(most, ++running);
      co_await gyre::yield();
      // The number in the database includes ends that are not stored yet.
      EXPECT_LE(
          co_await test.db.query_one<int>("select count(*) from work.job where state = 'running'"),
          3);
      --running;
      if (++done == 30) all.set();
    };
    worker first(test.db);
    worker second(test.db);
    first.handle("count", count);
    second.handle("count", count);
    std::vector<new_job> many(30);
    co_await test.jobs.submit_many(test.db, "count", many);
    co_await with_worker(first, [&]() -> task<> {
      co_await with_worker(second, [&]() -> task<> { co_await all.wait(); });
    });
    EXPECT_LE(most, 3);
    EXPECT_GE(most, 1);
  }(*this));
}

TEST_F(WorkQueue, PausedKindsWait) {
  run([](WorkQueue& test) -> task<> {
    co_await test.jobs.set_limits(test.db, "echo", {.is_paused = true});
    const auto waits = co_await test.jobs.submit(test.db, "echo", "a", {.keep = 1h});
    const auto runs = co_await test.jobs.submit(test.db, "other", "b", {.keep = 1h});
    worker worker(test.db, {.poll_interval = 10ms});
    worker.handle("echo", echo);
    worker.handle("other", echo);
    co_await with_worker(worker, [&]() -> task<> {
      EXPECT_EQ(co_await test.jobs.result(runs.id), "b");
      EXPECT_EQ((co_await test.jobs.status(waits.id)).value().state, job_state::ready);
      co_await test.jobs.set_limits(test.db, "echo", {});
      EXPECT_EQ(co_await test.jobs.result(waits.id), "a");
    });
  }(*this));
}

TEST_F(WorkQueue, SchedulesSubmitOneJobForEachTime) {
  run([](WorkQueue& test) -> task<> {
    const gyre::work::schedule entry{
        .kind = "tick", .payload = "p", .cron = "@yearly", .zone = "Europe/Berlin"};
    co_await test.jobs.set_schedule(test.db, "new year", entry);
    gyre::manual_reset_event ran;
    int count = 0;
    const auto tick = [&](job& current) -> task<> {
      EXPECT_THAT(current.key(), HasSubstr("schedule:new year:"));
      ++count;
      ran.set();
      co_return;
    };
    worker first(test.db);
    worker second(test.db);
    first.handle("tick", tick);
    second.handle("tick", tick);
    co_await with_worker(first, [&]() -> task<> {
      co_await with_worker(second, [&]() -> task<> {
        co_await test.wait_until("select next_at > now() from work.schedule");
        const auto next = co_await test.db.query_one<std::string>(
            "select to_char(next_at at time zone 'Europe/Berlin', 'MM-DD HH24:MI:SS')"
            " from work.schedule");
        EXPECT_EQ(next, "01-01 00:00:00");
        co_await test.db.execute("update work.schedule set next_at = now() - interval '1 hour'");
        co_await ran.wait();
        co_await test.wait_until("select next_at > now() from work.schedule");
      });
    });
    EXPECT_EQ(count, 1);
    EXPECT_TRUE(co_await test.jobs.remove_schedule(test.db, "new year"));
    EXPECT_FALSE(co_await test.jobs.remove_schedule(test.db, "new year"));
  }(*this));
}

TEST_F(WorkQueue, MissingSchemaIsAnErrorOfItsOwn) {
  run([](WorkQueue& test) -> task<> {
    co_await test.db.execute("drop schema work cascade");
    EXPECT_EQ(co_await code_of(test.jobs.submit(test.db, "echo", "")), errc::schema_missing);
    EXPECT_EQ(co_await code_of(test.jobs.status(1)), errc::schema_missing);
    worker worker(test.db);
    worker.handle("echo", echo);
    EXPECT_EQ(co_await code_of(worker.run()), errc::schema_missing);
  }(*this));
}

TEST_F(WorkQueue, CountsJobs) {
  run([](WorkQueue& test) -> task<> {
    co_await test.jobs.submit(test.db, "b", "");
    co_await test.jobs.submit(test.db, "a", "");
    const auto now = co_await test.db.query_one<gyre::work::server_time>("select now()");
    co_await test.jobs.submit(test.db, "a", "", {.run_at = now + 24h});
    const auto counts = co_await test.jobs.statistics();
    EXPECT_EQ(counts.size(), 2u);
    EXPECT_EQ(counts.at(0).kind, "a");
    EXPECT_EQ(counts.at(0).ready, 1);
    EXPECT_EQ(counts.at(0).scheduled, 1);
    EXPECT_GE(counts.at(0).oldest_ready_ms.value(), 0);
    EXPECT_EQ(counts.at(1).ready, 1);
  }(*this));
}

TEST_F(WorkQueue, RefusesArgumentsThatMakeNoSense) {
  run([](WorkQueue& test) -> task<> {
    const auto is_refused = [](task<submitted_job> submission) -> task<bool> {
      try {
        co_await std::move(submission);
      } catch (const std::invalid_argument&) {
        co_return true;
      }
      co_return false;
    };
    const auto submit = [&](std::string kind, std::string payload,
                            gyre::work::submit_options options = {}) {
      return is_refused(test.jobs.submit(test.db, std::move(kind), std::move(payload), options));
    };
    const std::string long_text(2000, 'x');
    const std::string large(queue::max_payload + 1, 'x');
    EXPECT_TRUE(co_await submit("", ""));
    EXPECT_TRUE(co_await submit(long_text, ""));
    EXPECT_TRUE(co_await submit("k", large));
    EXPECT_TRUE(co_await submit("k", "", {.key = long_text}));
    EXPECT_TRUE(co_await submit("k", "", {.max_attempts = 0}));
    EXPECT_TRUE(co_await submit("k", "", {.time_limit = 0s}));
    EXPECT_TRUE(co_await submit("k", "", {.keep = -1s}));
    EXPECT_FALSE(co_await submit(
        "k", "", {.time_limit = gyre::duration::max(), .keep = gyre::duration::max()}));
    const gyre::work::schedule wrong{.kind = "k", .cron = "* * * *"};
    auto attempt = gyre::as_result(test.jobs.set_schedule(test.db, "s", wrong));
    EXPECT_FALSE((co_await std::move(attempt)).has_value());
    EXPECT_EQ(co_await test.db.query_one<int>("select count(*) from work.schedule"), 0);
  }(*this));
}

}  // namespace
}  // namespace queue_test

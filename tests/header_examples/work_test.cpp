// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/client.hpp>
#include <gyre/engines/postgres/transaction.hpp>
#include <gyre/engines/work/cron_expression.hpp>
#include <gyre/engines/work/error.hpp>
#include <gyre/engines/work/job.hpp>
#include <gyre/engines/work/migrate.hpp>
#include <gyre/engines/work/once.hpp>
#include <gyre/engines/work/queue.hpp>
#include <gyre/engines/work/work_test_support.hpp>
#include <gyre/engines/work/worker.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/stop_when.hpp>

#include <gtest/gtest.h>

#include <cassert>
#include <chrono>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace work_test {
namespace {

using namespace std::chrono_literals;

struct WorkExamples : gyre::test::work_test {};

TEST(CronExpressionExample, NextTime) {
  const gyre::work::cron_expression workdays("30 7 * * mon-fri");
  auto next = workdays.next(std::chrono::local_days(2026y / 11 / 28));  // a Saturday
  assert(next == std::chrono::local_days(2026y / 11 / 30) + 7h + 30min);
  EXPECT_EQ(next, std::chrono::local_days(2026y / 11 / 30) + 7h + 30min);
}

gyre::task<> example_of_migrates(gyre::postgres::client& db) {
  co_await gyre::work::migrate(db);  // at the start of each program: it costs one statement
}

TEST_F(WorkExamples, Migrates) { run(example_of_migrates(db)); }

gyre::task<> example_of_refusal_of_a_full_queue(gyre::postgres::client& db) {
  gyre::work::queue jobs(db);
  const std::string picture = "a";
  const auto submit = [&](gyre::postgres::transaction& tx) -> gyre::task<> {
    try {
      co_await jobs.submit(tx, "resize", picture);
    } catch (const std::system_error& error) {
      if (error.code() != gyre::work::errc::queue_full) throw;
    }
  };
  co_await db.transaction(submit);
}

TEST_F(WorkExamples, RefusalOfAFullQueue) { run(example_of_refusal_of_a_full_queue(db)); }

gyre::task<> example_of_submits_within_a_transaction(gyre::postgres::client& db) {
  co_await db.execute("create table picture (name text)");
  const std::string name = "a.png";
  gyre::work::queue jobs(db);

  co_await db.transaction([&](gyre::postgres::transaction& tx) -> gyre::task<> {
    co_await tx.execute("insert into picture (name) values ($1)", name);
    co_await jobs.submit(tx, "resize", name, {.key = "resize:" + name});
  });  // the picture and its job, or neither
  EXPECT_EQ(co_await db.query_one<std::string>("select payload from work.job"), name);
}

TEST_F(WorkExamples, SubmitsWithinATransaction) {
  run(example_of_submits_within_a_transaction(db));
}

using picture = std::string;
gyre::task<picture> load(std::string name) { co_return name; }
picture shrink(picture source) { return source + " (small)"; }
gyre::task<std::string> store(picture small) { co_return small; }

gyre::task<std::string> resize(gyre::work::job& job) {
  const picture source = co_await load(job.payload());
  job.report_progress(0.5, "loaded");
  co_return co_await store(shrink(source));
}

gyre::task<> send_mail(std::string) { co_return; }

gyre::task<> example_of_runs_jobs_and_watches_them(gyre::postgres::client& db) {
  gyre::thread_pool pool(1);
  gyre::work::queue jobs(db);
  const auto made = co_await jobs.submit(db, "resize", "a.png", {.keep = 1h});
  const auto id = made.id;

  gyre::inplace_stop_source stop;
  const auto serve = [&]() -> gyre::task<> {
    gyre::work::worker worker(db);
    worker.handle("resize", resize, {.max_running = 4, .executor = &pool});
    worker.handle("mail", [&](gyre::work::job& job) { return send_mail(job.payload()); });
    co_await worker.run();  // until it is stopped or drained
  };
  const auto wait = [&]() -> gyre::task<> {
    std::optional<double> shown;
    const auto show = [&](std::optional<double> progress) { shown = progress; };
    auto changes = jobs.watch(id);
    while (auto* status = co_await changes.next()) show(status->progress);
    EXPECT_EQ(shown, 1.0);
    EXPECT_EQ(co_await jobs.result(id), "a.png (small)");
    stop.request_stop();
  };
  co_await gyre::with_scope([&](gyre::scope& running) -> gyre::task<> {
    running.spawn(gyre::as_expected(gyre::stop_when(serve(), stop.get_token())));
    co_await wait();
  });
}

TEST_F(WorkExamples, RunsJobsAndWatchesThem) { run(example_of_runs_jobs_and_watches_them(db)); }

gyre::task<> example_of_makes_an_effect_once(gyre::postgres::client& db) {
  co_await db.execute("create table account (id int, amount int)");
  co_await db.execute("insert into account values (1, 100)");
  const std::string order = "7";
  const int sum = 10;
  const int id = 1;
  for (int n = 0; n != 2; ++n) {
    co_await db.transaction([&](gyre::postgres::transaction& tx) -> gyre::task<> {
      const bool is_first = co_await gyre::work::once(tx, "invoice:" + order);
      if (!is_first) co_return;
      co_await tx.execute("update account set amount = amount - $1 where id = $2", sum, id);
    });
  }
  EXPECT_EQ(co_await db.query_one<int>("select amount from account"), 90);
}

gyre::task<> example_of_runs_jobs_in_a_transaction(gyre::postgres::client& db) {
  co_await db.execute("create table visit (page text)");
  gyre::work::queue queue(db);
  const std::vector<gyre::work::new_job> visits = {{.payload = "/"}, {.payload = "/about"}};
  co_await queue.submit_many(db, "visit", visits);
  gyre::work::worker worker(db);
  const auto serve = [&]() -> gyre::task<> {
    const auto visit = [](auto jobs, gyre::postgres::transaction& tx) -> gyre::task<> {
      std::vector<std::string> pages;
      for (const gyre::work::job* each : jobs) pages.push_back(each->payload());
      co_await tx.execute("insert into visit (page) select unnest($1::text[])", pages);
    };
    worker.handle_in_transaction("visit", visit, {.max_jobs = 100});
    co_await worker.run();
  };
  co_await gyre::with_scope([&](gyre::scope& running) -> gyre::task<> {
    running.spawn(serve());
    while (worker.metrics().finished != 2) co_await gyre::sleep_for(5ms);
    worker.drain();
  });
  EXPECT_EQ(co_await db.query_one<int>("select count(distinct page) from visit"), 2);
}

TEST_F(WorkExamples, RunsJobsInATransaction) { run(example_of_runs_jobs_in_a_transaction(db)); }

TEST_F(WorkExamples, MakesAnEffectOnce) { run(example_of_makes_an_effect_once(db)); }

}  // namespace
}  // namespace work_test

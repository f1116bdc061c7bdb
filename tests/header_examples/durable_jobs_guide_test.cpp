// SPDX-License-Identifier: Apache-2.0
// The programs of docs/guide/durable-jobs.md.
#include <gyre/engines/postgres/client.hpp>
#include <gyre/engines/postgres/transaction.hpp>
#include <gyre/engines/work/job.hpp>
#include <gyre/engines/work/once.hpp>
#include <gyre/engines/work/queue.hpp>
#include <gyre/engines/work/work_test_support.hpp>
#include <gyre/engines/work/worker.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/stop_when.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace durable_jobs_guide_test {
namespace {

using namespace std::chrono_literals;

// clang-format off
gyre::task<gyre::work::job_id> place_order(gyre::postgres::client& db, gyre::work::queue& jobs,
                                           std::string item) {
  gyre::work::job_id id = 0;
  const auto body = [&](gyre::postgres::transaction& tx) -> gyre::task<> {
    auto order = co_await tx.query_one<std::string>(
        "insert into orders (item) values ($1) returning id::text", item);
    auto job = co_await jobs.submit(tx, "invoice", order, {.keep = 24h});
    id = job.id;
  };
  co_await db.transaction(body);
  co_return id;
}
// clang-format on

// clang-format off
gyre::task<std::string> write_invoice(gyre::work::job& job, gyre::postgres::client& db) {
  const std::string order = job.payload();
  job.report_progress(0.5, "adds it to the account");
  const auto body = [&](gyre::postgres::transaction& tx) -> gyre::task<> {
    const bool is_first = co_await gyre::work::once(tx, "invoice:" + order);
    if (!is_first) co_return;
    co_await tx.execute("update account set amount = amount + 10");
  };
  co_await db.transaction(body);
  co_return "invoice of order " + order;
}

gyre::task<> run_worker(gyre::postgres::client& db) {
  gyre::work::worker worker(db, {.drain_timeout = 20s});
  const auto handler = [&](gyre::work::job& job) { return write_invoice(job, db); };
  worker.handle("invoice", handler, {.max_running = 64, .time_limit = 1min});
  co_await worker.run();  // until it is stopped, or drained by worker.drain()
}
// clang-format on

// clang-format off
gyre::task<> count_visits(std::span<gyre::work::job* const> jobs, gyre::postgres::transaction& tx) {
  std::vector<std::string> pages;
  for (const gyre::work::job* each : jobs) pages.push_back(each->payload());
  co_await tx.execute("insert into visit (page) select unnest($1::text[])", pages);
}

gyre::task<> run_counter(gyre::postgres::client& db) {
  gyre::work::worker worker(db);
  worker.handle_in_transaction("visit", count_visits, {.max_jobs = 100});
  co_await worker.run();
}
// clang-format on

// clang-format off
gyre::task<std::string> follow(gyre::work::queue& jobs, gyre::work::job_id id) {
  auto changes = jobs.watch(id);
  while (const auto* status = co_await changes.next()) {
    std::cout << gyre::work::name_of(status->state) << '\n';  // status->progress, progress_note
  }
  co_return co_await jobs.result(id);
}
// clang-format on

// clang-format off
gyre::task<std::int64_t> write_all(gyre::postgres::client& db, gyre::work::queue& jobs) {
  std::vector<gyre::work::new_job> orders;
  for (int id = 1; id <= 3; ++id) orders.push_back({.payload = std::to_string(id)});
  auto batch = co_await jobs.submit_batch(db, "invoice", orders, {}, {.then_kind = "report"});
  auto status = co_await jobs.wait_for_batch(batch);
  co_return status.finished;  // and status.dead, status.cancelled
}
// clang-format on

// clang-format off
gyre::task<> plan_reports(gyre::postgres::client& db, gyre::work::queue& jobs) {
  const gyre::work::schedule every_morning{
      .kind = "report", .cron = "30 7 * * mon-fri", .zone = "Europe/London"};
  co_await jobs.set_schedule(db, "morning report", every_morning);
}
// clang-format on

// clang-format off
gyre::task<std::size_t> look_after(gyre::postgres::client& db, gyre::work::queue& jobs) {
  const gyre::work::kind_limits limits{.max_running = 8, .max_waiting = 50'000};
  co_await jobs.set_limits(db, "invoice", limits);
  auto dead = co_await jobs.dead_jobs("invoice");
  for (const gyre::work::job_status& job : dead) {
    std::cout << job.id << ": " << job.error << '\n';
    co_await jobs.revive(db, job.id);
  }
  co_return dead.size();
}
// clang-format on

struct DurableJobsGuide : gyre::test::work_test {
  /// Runs a test's coroutine with the tables of the guide; returns its output.
  std::string output_of(gyre::task<> program) {
    const auto with_tables = [](gyre::postgres::client& client, gyre::task<> body) -> gyre::task<> {
      co_await client.execute_script(
          "create table orders (id bigserial, item text);"
          "create table account (amount int); insert into account values (0)");
      co_await std::move(body);
    };
    testing::internal::CaptureStdout();
    run(with_tables(db, std::move(program)));
    return testing::internal::GetCapturedStdout();
  }
  /// Runs a worker of the guide beside the body, and stops it afterwards.
  gyre::task<> beside_worker(gyre::task<> body) { return beside(run_worker(db), std::move(body)); }
  static gyre::task<> beside(gyre::task<> worker, gyre::task<> body) {
    gyre::inplace_stop_source stop;
    co_await gyre::with_scope([&](gyre::scope& running) -> gyre::task<> {
      running.spawn(gyre::as_expected(gyre::stop_when(std::move(worker), stop.get_token())));
      co_await std::move(body);
      stop.request_stop();
    });
  }
};

TEST_F(DurableJobsGuide, SubmitsHandlesAndFollows) {
  const auto program = [](DurableJobsGuide& test) -> gyre::task<> {
    const gyre::work::job_id id = co_await place_order(test.db, test.jobs, "tea");
    const std::string result = co_await follow(test.jobs, id);
    EXPECT_EQ(result, "invoice of order 1");
    const int amount = co_await test.db.query_one<int>("select amount from account");
    EXPECT_EQ(amount, 10);
  };
  const std::string output = output_of(beside_worker(program(*this)));
  EXPECT_TRUE(output.ends_with("finished\n")) << output;
}

TEST_F(DurableJobsGuide, RunsSmallJobsInOneTransaction) {
  const auto program = [](DurableJobsGuide& test) -> gyre::task<> {
    co_await test.db.execute("create table visit (page text)");
    std::vector<gyre::work::new_job> visits;
    for (const char* page : {"/", "/about", "/"}) visits.push_back({.payload = page});
    auto batch = co_await test.jobs.submit_batch(test.db, "visit", visits);
    auto status = co_await test.jobs.wait_for_batch(batch);
    EXPECT_EQ(status.finished, 3);
    const int pages = co_await test.db.query_one<int>("select count(*) from visit");
    EXPECT_EQ(pages, 3);
  };
  output_of(beside(run_counter(db), program(*this)));
}

TEST_F(DurableJobsGuide, WaitsForBatches) {
  const auto program = [](DurableJobsGuide& test) -> gyre::task<> {
    const std::int64_t finished = co_await write_all(test.db, test.jobs);
    EXPECT_EQ(finished, 3);
    const int amount = co_await test.db.query_one<int>("select amount from account");
    EXPECT_EQ(amount, 30);
    const int reports =
        co_await test.db.query_one<int>("select count(*) from work.job where kind = 'report'");
    EXPECT_EQ(reports, 1);
  };
  output_of(beside_worker(program(*this)));
}

TEST_F(DurableJobsGuide, PlansAndLooksAfterJobs) {
  const auto program = [](DurableJobsGuide& test) -> gyre::task<> {
    co_await plan_reports(test.db, test.jobs);
    const std::string zone =
        co_await test.db.query_one<std::string>("select zone from work.schedule");
    EXPECT_EQ(zone, "Europe/London");
    const auto made = co_await test.jobs.submit(test.db, "invoice", "1");
    co_await test.db.execute(
        "update work.job set state = 'dead', error = 'no ink', failures = 20 where id = $1",
        made.id);
    const std::size_t dead = co_await look_after(test.db, test.jobs);
    EXPECT_EQ(dead, 1u);
    const std::string state =
        co_await test.db.query_one<std::string>("select state::text from work.job");
    EXPECT_EQ(state, "ready");
  };
  EXPECT_EQ(output_of(program(*this)), "1: no ink\n");
}

}  // namespace
}  // namespace durable_jobs_guide_test

// SPDX-License-Identifier: Apache-2.0
#include <lab/experiments/work_queue/workload.hpp>

#include <lab/harness/engines/engine_process.hpp>
#include <lab/harness/engines/item_set.hpp>
#include <lab/harness/engines/postgres_server.hpp>
#include <lab/harness/engines/postgres_session.hpp>
#include <lab/harness/program.hpp>
#include <lab/harness/timing.hpp>

#include <sys/types.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>
#include <utility>

namespace lab::work_queue {
namespace {

using engines::postgres_server;
using engines::postgres_session;
using std::chrono::milliseconds;

constexpr const char* database = "gyre_lab_work_queue";
/// The time between two single jobs, of which each of the workers could run many more.
constexpr std::uint32_t interval_us = 5000;

struct parameters {
  std::uint32_t workers = 1;
  std::uint32_t jobs = 10'000;      // of the backlog
  std::uint32_t single_jobs = 400;  // which are submitted one by one
};

// A range of jobs with consecutive numbers.
struct job_range {
  std::uint32_t first = 0;
  std::uint32_t count = 0;

  std::string condition(const std::string& column) const {
    return column + " >= " + std::to_string(first) + " and " + column + " < " +
           std::to_string(first + count);
  }
};

std::string text_of(const std::string& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// The server of a run, a fresh database, and the contender's processes.
class queue_run {
 public:
  queue_run(const queue_program& program, const std::vector<unsigned>& cpus)
      : program_(program),
        server_(engines::item_set(0, engines::item_set::smallest_value), cpus,
                {"track_commit_timestamp=on"}),
        session_(make_database(server_)) {
    session_.run(
        "create table worker (started timestamptz default now());"
        "create table submission (first integer primary key, count integer not null);"
        "create table effect (number integer primary key, payload text not null)");
    finish("prepare", {});
  }
  queue_run(const queue_run&) = delete;
  queue_run& operator=(const queue_run&) = delete;
  ~queue_run() {
    for (const pid_t each : workers_) engines::end_process(each);
  }

  postgres_session& session() { return session_; }

  void start_workers(std::uint32_t count) {
    for (std::uint32_t n = 0; n < count; ++n) {
      workers_.push_back(start_program({.words = words("work", {}), .output = log()}));
    }
    await([this, count] { return session_.query_number("select count(*) from worker") == count; });
  }

  // Submits jobs, and waits until the end of each is stored.
  void run_jobs(const job_range& jobs, std::uint32_t interval) {
    finish("submit",
           {std::to_string(jobs.first), std::to_string(jobs.count), std::to_string(interval)});
    await([this] { return session_.query_number(program_.unfinished) == 0; });
  }

  network::usage used_by_workers() const {
    network::usage sum;
    for (const pid_t each : workers_) {
      const network::usage used = used_by(each);
      sum.cpu_seconds += used.cpu_seconds;
      sum.peak_memory_bytes += used.peak_memory_bytes;
    }
    return sum;
  }
  network::usage used_by_server() const { return server_.used(); }

 private:
  static postgres_session make_database(const postgres_server& server) {
    {
      postgres_session session(server.host(), postgres_server::database);
      session.run("set client_min_messages = error");
      session.run(std::string("drop database if exists ") + database);
      session.run(std::string("create database ") + database);
    }
    return postgres_session(server.host(), database);
  }

  std::string log() const { return folder_.path() + "/log"; }

  std::vector<std::string> words(const std::string& role,
                                 const std::vector<std::string>& arguments) const {
    std::vector<std::string> all = program_.command;
    all.insert(all.end(), {role, server_.host(), database});
    all.insert(all.end(), arguments.begin(), arguments.end());
    return all;
  }

  [[noreturn]] void fail(const std::string& problem) const {
    constexpr std::size_t most = 2000;
    std::string printed = text_of(log());
    if (printed.size() > most) printed.erase(0, printed.size() - most);
    throw std::runtime_error(problem + ": " + printed);
  }

  // Runs a program of the contender to its end.
  void finish(const std::string& role, const std::vector<std::string>& arguments) const {
    const int status = run_program({.words = words(role, arguments), .output = log()});
    if (status != 0) fail(role + " has ended with status " + std::to_string(status));
  }

  // Waits until `happened`, as long as there is an effect now and then.
  template <class Happened>
  void await(Happened happened) {
    constexpr std::chrono::seconds patience{30};
    clock::time_point changed = clock::now();
    double effects = -1;
    while (!happened()) {
      for (const pid_t each : workers_) {
        if (waitpid(each, nullptr, WNOHANG) != 0) {
          std::erase(workers_, each);
          fail("a worker has ended");
        }
      }
      if (clock::now() - changed > patience) {
        const double now = session_.query_number("select count(*) from effect");
        if (now == effects) fail("no effect for " + std::to_string(patience.count()) + " seconds");
        effects = now;
        changed = clock::now();
      }
      std::this_thread::sleep_for(milliseconds{20});
    }
  }

  const queue_program& program_;
  scratch_folder folder_;
  postgres_server server_;
  postgres_session session_;
  std::vector<pid_t> workers_;
};

// The times by the server's clock at which submissions and effects were committed.
constexpr const char* latencies =
    "(select extract(epoch from pg_xact_commit_timestamp(effect.xmin)"
    " - pg_xact_commit_timestamp(submission.xmin)) * 1e6 as us"
    " from effect join submission on first = number where ";

double latency_us(postgres_session& session, const job_range& jobs, const char* share) {
  return session.query_number(std::string("select percentile_disc(") + share +
                              ") within group (order by us) from " + latencies +
                              jobs.condition("number") + ") as latency");
}

double seconds_of(postgres_session& session, const job_range& jobs) {
  return session.query_number(
      "select extract(epoch from max(pg_xact_commit_timestamp(xmin)) -"
      " (select pg_xact_commit_timestamp(xmin) from submission where first = " +
      std::to_string(jobs.first) + ")) from effect where " + jobs.condition("number"));
}

void inject(postgres_session& session, fault sabotage) {
  if (sabotage == fault::lose) session.run("delete from effect where number = 5");
  if (sabotage == fault::duplicate) {
    session.run("insert into effect select -1, payload from effect where number = 5");
  }
}

void check(postgres_session& session, std::uint32_t jobs, report& result) {
  const auto count = [&session](const std::string& condition) {
    return static_cast<std::uint64_t>(
        session.query_number("select count(*) from effect" + condition));
  };
  result.check("effects", count(""), jobs);
  result.check("right_effects",
               count(" where payload = lpad(number::text, 8, '0') || repeat('.', 56) and"
                     " number < " +
                     std::to_string(jobs)),
               jobs);
}

void run(const parameters& cell, const queue_program& program, const harness_options& harness,
         report& result) {
  program.probe();
  queue_run run(program, harness.pin);
  run.start_workers(cell.workers);

  const std::uint32_t warmup = cell.single_jobs / 4;
  const job_range single{warmup, cell.single_jobs};
  const job_range backlog{warmup + cell.single_jobs, cell.jobs};
  run.run_jobs({0, warmup + single.count}, interval_us);
  const network::usage workers_before = run.used_by_workers();
  const network::usage server_before = run.used_by_server();
  run.run_jobs(backlog, 0);
  const network::usage workers = run.used_by_workers();
  const network::usage server = run.used_by_server();

  postgres_session& session = run.session();
  inject(session, harness.sabotage);
  check(session, backlog.first + backlog.count, result);
  if (!result.ok()) return;

  const double slowed = 1 + harness.handicap / 100;
  const auto jobs = static_cast<double>(cell.jobs);
  result.metric("jobs_per_second", jobs / seconds_of(session, backlog) / slowed);
  result.metric("median_latency_us", latency_us(session, single, "0.5") * slowed);
  result.metric("p99_latency_us", latency_us(session, single, "0.99") * slowed);
  result.metric("worker_cpu_ns_per_job",
                (workers.cpu_seconds - workers_before.cpu_seconds) * 1e9 / jobs * slowed);
  result.metric("server_cpu_ns_per_job",
                (server.cpu_seconds - server_before.cpu_seconds) * 1e9 / jobs);
  result.metric("worker_peak_memory_bytes", workers.peak_memory_bytes / cell.workers);
  result.units("job", backlog.first + backlog.count);
}

}  // namespace

int contender_main(int argc, const char* const* argv, const queue_program& program,
                   libraries versions) {
  parameters cell;
  arguments options;
  options.number("workers", cell.workers, "worker processes", 1, 16)
      .number("jobs", cell.jobs, "jobs that are submitted together", 1, 10'000)
      .number("single-jobs", cell.single_jobs, "jobs that are submitted one by one", 4, 100'000);
  return lab::contender_main(argc, argv, this_contender(std::move(versions)), options,
                             [&cell, &program](const harness_options& harness, report& result) {
                               run(cell, program, harness, result);
                             });
}

std::string output_of(const std::vector<std::string>& command, const std::string& reason) {
  const scratch_folder folder;
  const std::string output = folder.path() + "/output";
  if (run_program({.words = command, .output = output}) != 0) throw cannot_run(reason);
  std::string text = text_of(output);
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace lab::work_queue

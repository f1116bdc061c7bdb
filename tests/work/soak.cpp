// SPDX-License-Identifier: Apache-2.0
// Jobs whose workers and whose server are killed all the time: see README.md.
#include <gyre/engines/postgres/client.hpp>
#include <gyre/engines/postgres/transaction.hpp>
#include <gyre/engines/work/error.hpp>
#include <gyre/engines/work/job.hpp>
#include <gyre/engines/work/migrate.hpp>
#include <gyre/engines/work/once.hpp>
#include <gyre/engines/work/queue.hpp>
#include <gyre/engines/work/worker.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/process.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/shielded.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>
#include <tests/support/postgres_server.hpp>

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::test::postgres_server;
using std::chrono::milliseconds;

struct settings {
  std::int64_t jobs = 100'000;
  std::int64_t workers = 3;
  std::int64_t kill_worker = 2000;
  std::int64_t kill_server = 10'000;
  std::int64_t max_waiting = 50'000;
  std::int64_t lease = 3000;
};

gyre::postgres::client_options options_of(std::string_view address) {
  gyre::postgres::client_options options;
  options.server = std::string(address);
  options.user = postgres_server::user();
  options.database = postgres_server::database();
  return options;
}

/// The program of a worker process, which only SIGKILL ends.
int work(const char* address, std::int64_t lease) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  gyre::loop loop;
  gyre::postgres::client db(loop, options_of(address));
  gyre::work::worker worker(db, {.lease = milliseconds{lease}, .statement_timeout = 5s});
  worker.handle("effect",
                [&](gyre::work::job& job) -> task<> {
                  const auto body = [&](gyre::postgres::transaction& tx) -> task<> {
                    const bool is_first = co_await gyre::work::once(tx, job.payload());
                    if (is_first)
                      co_await tx.execute("insert into effect values ($1)", job.payload());
                  };
                  co_await db.transaction(body);
                },
                {.max_running = 64, .delay = {.initial = 10ms, .longest = 1s}});
  gyre::sync_wait(loop, worker.run());
  return 0;
}

/// The largest memory that a process has had, in KiB.
std::int64_t peak_memory_of(int process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string word; status >> word;) {
    std::int64_t size = 0;
    if (word == "VmHWM:" && status >> size) return size;
  }
  return 0;
}

class soak {
 public:
  soak(gyre::event_loop& loop, const settings& limits)
      : loop_(loop),
        limits_(limits),
        server_(loop, {.parameters = {"shared_buffers=256MB", "max_wal_size=2GB",
                                      "autovacuum_naptime=5s", "max_connections=200"}}),
        db_(loop, options_of(server_.address())),
        jobs_(db_) {}

  task<bool> run() {
    co_await gyre::work::migrate(db_);
    co_await db_.execute("create table effect (name text not null)");
    const gyre::work::kind_limits limits{.max_waiting = limits_.max_waiting};
    co_await jobs_.set_limits(db_, "effect", limits);
    workers_.resize(static_cast<std::size_t>(limits_.workers));
    for (auto& each : workers_) start(each);

    const auto begin = std::chrono::steady_clock::now();
    co_await gyre::with_scope([this](gyre::scope& scope) -> task<> {
      scope.spawn(submit_all());
      if (limits_.kill_worker > 0) scope.spawn(kill_workers());
      if (limits_.kill_server > 0) scope.spawn(kill_server());
      co_await wait_for_all();
      scope.request_stop();
    });
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    for (auto& each : workers_) note_memory(*each);
    workers_.clear();

    const auto effects = co_await db_.query_one<std::int64_t>("select count(*) from effect");
    const auto names =
        co_await db_.query_one<std::int64_t>("select count(distinct name) from effect");
    const auto table = co_await db_.query_one<std::int64_t>("select pg_table_size('work.job')");
    std::cout << limits_.jobs << " jobs in " << time.count()
              << " s: " << static_cast<double>(limits_.jobs) / time.count() << " a second\n"
              << "killed: " << killed_workers_ << " workers, the server " << killed_servers_
              << " times\n"
              << "longest backlog: " << longest_backlog_ << " jobs; work.job: " << table / 1024
              << " KiB; largest worker: " << peak_memory_ << " KiB\n"
              << "effects: " << effects << ", different: " << names << std::endl;
    co_return effects == limits_.jobs&& names == limits_.jobs;
  }

 private:
  using process = std::unique_ptr<gyre::io::process>;

  void start(process& worker) {
    const std::vector<std::string> command = {"/proc/self/exe", "--worker", server_.address(),
                                              std::to_string(limits_.lease)};
    worker = std::make_unique<gyre::io::process>(loop_, command);
  }
  void note_memory(const gyre::io::process& worker) {
    peak_memory_ = std::max(peak_memory_, peak_memory_of(worker.pid()));
  }

  /// Submits all jobs, a thousand at a time; a submission whose outcome is unknown is repeated, and
  /// its effects have the same names.
  task<> submit_all() {
    for (std::int64_t first = 0; first < limits_.jobs;) {
      std::vector<gyre::work::new_job> some(
          static_cast<std::size_t>(std::min<std::int64_t>(1000, limits_.jobs - first)));
      for (std::size_t n = 0; n != some.size(); ++n) {
        some[n].payload = std::to_string(first + static_cast<std::int64_t>(n));
      }
      auto attempt = gyre::as_result(jobs_.submit_many(db_, "effect", some));
      const auto result = co_await std::move(attempt);
      if (result) {
        first += static_cast<std::int64_t>(some.size());
      } else {
        co_await gyre::sleep_for(50ms);  // the queue is full, or the server is being restarted
      }
    }
    are_all_submitted_ = true;
  }

  task<> wait_for_all() {
    while (true) {
      co_await gyre::sleep_for(100ms);
      const bool are_all_submitted = are_all_submitted_;
      auto attempt = gyre::as_result(db_.query_one<std::int64_t>("select count(*) from work.job"));
      const auto left = co_await std::move(attempt);
      if (!left) continue;
      longest_backlog_ = std::max(longest_backlog_, *left);
      if (are_all_submitted && *left == 0) co_return;
    }
  }

  task<> kill_workers() {
    for (std::size_t n = 0;; ++n) {
      co_await gyre::sleep_for(milliseconds{limits_.kill_worker});
      process& victim = workers_[n % workers_.size()];
      note_memory(*victim);
      victim->kill(SIGKILL);
      co_await victim->wait();
      start(victim);
      ++killed_workers_;
    }
  }
  task<> kill_server() {
    while (true) {
      co_await gyre::sleep_for(milliseconds{limits_.kill_server});
      co_await gyre::shielded(restart_server());
      ++killed_servers_;
    }
  }
  task<> restart_server() {
    co_await server_.kill();
    co_await server_.start_again();
  }

  gyre::event_loop& loop_;
  const settings limits_;
  postgres_server server_;
  gyre::postgres::client db_;
  gyre::work::queue jobs_;
  std::vector<process> workers_;
  bool are_all_submitted_ = false;
  std::int64_t longest_backlog_ = 0;
  std::int64_t peak_memory_ = 0;
  int killed_workers_ = 0;
  int killed_servers_ = 0;
};

settings read(const std::vector<std::string_view>& arguments) {
  settings result;
  for (std::size_t n = 1; n < arguments.size(); n += 2) {
    const std::int64_t value = n + 1 < arguments.size() ? std::atoll(arguments[n + 1].data()) : -1;
    if (value < 0) throw std::invalid_argument(std::string(arguments[n]) + " needs a number");
    if (arguments[n] == "--jobs") {
      result.jobs = value;
    } else if (arguments[n] == "--workers") {
      result.workers = std::max<std::int64_t>(value, 1);
    } else if (arguments[n] == "--kill-worker") {
      result.kill_worker = value;
    } else if (arguments[n] == "--kill-server") {
      result.kill_server = value;
    } else if (arguments[n] == "--lease") {
      result.lease = std::max<std::int64_t>(value, 1000);
    } else if (arguments[n] == "--max-waiting") {
      result.max_waiting = std::max<std::int64_t>(value, 1);
    } else {
      throw std::invalid_argument("unknown option " + std::string(arguments[n]));
    }
  }
  return result;
}

}  // namespace

int main(int count, char** values) {
  const std::vector<std::string_view> arguments(values, values + count);
  try {
    if (count == 4 && arguments[1] == "--worker") return work(values[2], std::atoll(values[3]));
    gyre::loop loop;
    soak test(loop, read(arguments));
    return gyre::sync_wait(loop, test.run()) ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
}

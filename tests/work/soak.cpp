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
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
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
  std::int64_t max_jobs = 128;
  std::int64_t max_kills = 1'000'000;  // of workers; and a tenth of that of servers
  bool is_on_disk = true;
};

gyre::postgres::client_options options_of(std::string_view address) {
  gyre::postgres::client_options options;
  options.server = std::string(address);
  options.user = postgres_server::user();
  options.database = postgres_server::database();
  return options;
}

/// Makes the effect of a job in a transaction of its own.
task<> make_effect(gyre::postgres::client& db, gyre::work::job& job) {
  const auto body = [&](gyre::postgres::transaction& tx) -> task<> {
    const bool is_first = co_await gyre::work::once(tx, job.payload());
    const char* const statement =
        is_first ? "insert into effect values ($1)" : "insert into repeated values ($1)";
    co_await tx.execute(statement, job.payload());
  };
  co_await db.transaction(body);
}

/// Makes the effects of several jobs in the transaction that ends them.
task<> make_effects(std::span<gyre::work::job* const> jobs, gyre::postgres::transaction& tx) {
  std::vector<std::string> names;
  names.reserve(jobs.size());
  for (const gyre::work::job* each : jobs) names.push_back(each->payload());
  const std::vector<bool> are_first = co_await gyre::work::once(tx, names);
  std::vector<std::string_view> effects;
  std::vector<std::string_view> repeated;
  for (std::size_t n = 0; n != names.size(); ++n) {
    (are_first.at(n) ? effects : repeated).emplace_back(names[n]);
  }
  co_await tx.execute("insert into effect select unnest($1::text[])", effects);
  if (repeated.empty()) co_return;
  co_await tx.execute("insert into repeated select unnest($1::text[])", repeated);
}

/// The program of a worker process, which only SIGKILL ends. `max_jobs`: those of a transaction; 0:
/// each job makes one of its own.
int work(const char* address, std::int64_t lease, std::size_t max_jobs) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  gyre::loop loop;
  gyre::postgres::client db(loop, options_of(address));
  gyre::work::worker worker(db, {.lease = milliseconds{lease}, .statement_timeout = 5s});
  const gyre::exponential_backoff delay{.initial = 10ms, .longest = 1s};
  if (max_jobs == 0) {
    worker.handle("effect", [&](gyre::work::job& job) { return make_effect(db, job); },
                  {.max_running = 64, .delay = delay});
  } else {
    worker.handle_in_transaction(
        "effect", make_effects,
        {.max_jobs = max_jobs, .max_running = 2 * max_jobs, .delay = delay});
  }
  gyre::sync_wait(loop, worker.run());
  return 0;
}

/// A line of the process's status that holds a size, in KiB.
std::int64_t memory_of(int process, std::string_view name) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string word; status >> word;) {
    std::int64_t size = 0;
    if (word == name && status >> size) return size;
  }
  return 0;
}

/// The seconds of a processor that a process has had, with those of its children that have ended.
double processor_time_of(int process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string skipped;
  for (int n = 0; n != 11; ++n) fields >> skipped;
  double ticks = 0;
  for (int n = 0; n != 4; ++n) {
    double some = 0;
    fields >> some;
    ticks += some;
  }
  return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

double own_processor_time() {
  ::rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const ::timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// The load averages of the machine.
std::string load_averages() {
  std::ifstream file("/proc/loadavg");
  std::string text;
  std::getline(file, text);
  return text.substr(0, text.find_last_of('/') - 1);
}

class soak {
 public:
  soak(gyre::event_loop& loop, const settings& limits)
      : loop_(loop),
        limits_(limits),
        server_(loop, {.parameters = {"shared_buffers=256MB", "max_wal_size=2GB",
                                      "autovacuum_naptime=5s", "max_connections=200",
                                      "recovery_init_sync_method=syncfs", "wal_compression=lz4"},
                       .is_on_disk = limits.is_on_disk}),
        db_(loop, options_of(server_.address())),
        jobs_(db_) {}

  task<bool> run() {
    co_await gyre::work::migrate(db_);
    co_await db_.execute("create table effect (name text not null)");
    co_await db_.execute("create table repeated (name text not null)");
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
    for (auto& each : workers_) note_end(*each);
    workers_.clear();
    measure_server();
    server_time_ += server_time_now_;

    const auto effects = co_await db_.query_one<std::int64_t>("select count(*) from effect");
    const auto names =
        co_await db_.query_one<std::int64_t>("select count(distinct name) from effect");
    const auto repeated = co_await db_.query_one<std::int64_t>("select count(*) from repeated");
    const auto table = co_await db_.query_one<std::int64_t>("select pg_table_size('work.job')");
    const auto per_thousand = [this](double seconds) {
      return std::to_string(seconds * 1e6 / static_cast<double>(limits_.jobs)) + " ms";
    };
    std::cout << limits_.jobs << " jobs in " << time.count()
              << " s: " << static_cast<double>(limits_.jobs) / time.count() << " a second\n"
              << "load: " << load_ << " at first, " << load_averages() << " at the end\n"
              << "slowest second: " << slowest_rate_.value_or(0)
              << " jobs; longest time without progress: " << longest_pause_ << " s\n"
              << "processor time for 1000 jobs: server " << per_thousand(server_time_)
              << ", workers " << per_thousand(worker_time_) << ", submitter "
              << per_thousand(own_processor_time()) << '\n'
              << "killed: " << killed_workers_ << " workers, the server " << killed_servers_
              << " times, which took " << time_without_server_.count() << " s to recover\n"
              << "longest backlog: " << longest_backlog_ << " jobs; work.job: " << table / 1024
              << " KiB; largest worker: " << peak_memory_
              << " KiB; server's own memory: " << server_memory_ << " KiB\n"
              << "effects: " << effects << ", different: " << names
              << "; jobs whose effect had happened before: " << repeated << std::endl;
    co_return effects == limits_.jobs&& names == limits_.jobs;
  }

 private:
  using process = std::unique_ptr<gyre::io::process>;

  void start(process& worker) {
    const std::vector<std::string> command = {"/proc/self/exe", "--worker", server_.address(),
                                              std::to_string(limits_.lease),
                                              std::to_string(limits_.max_jobs)};
    worker = std::make_unique<gyre::io::process>(loop_, command);
  }
  void note_end(const gyre::io::process& worker) {
    peak_memory_ = std::max(peak_memory_, memory_of(worker.pid(), "VmHWM:"));
    worker_time_ += processor_time_of(worker.pid());
  }
  /// Notes the memory and the time of the server since it was started.
  void measure_server() {
    std::int64_t memory = 0;
    double time = 0;
    for (const int each : server_.processes()) {
      memory += memory_of(each, "RssAnon:");
      time += processor_time_of(each);
    }
    server_memory_ = std::max(server_memory_, memory);
    server_time_now_ = std::max(server_time_now_, time);
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
        submitted_ = first;
      } else {
        co_await gyre::sleep_for(50ms);  // the queue is full, or the server is being restarted
      }
    }
    are_all_submitted_ = true;
  }

  /// Measures until no job is left. The count of jobs reads the table.
  task<> wait_for_all() {
    using clock = std::chrono::steady_clock;
    constexpr auto interval = 1s;
    auto last_time = clock::now();
    auto last_progress = last_time;
    std::int64_t last_ended = 0;
    while (true) {
      co_await gyre::sleep_for(are_all_submitted_ ? milliseconds{100} : milliseconds{interval});
      measure_server();
      const bool are_all_submitted = are_all_submitted_;
      auto attempt = gyre::as_result(db_.query_one<std::int64_t>("select count(*) from work.job"));
      const auto left = co_await std::move(attempt);
      if (!left) continue;
      longest_backlog_ = std::max(longest_backlog_, *left);
      if (are_all_submitted && *left == 0) co_return;
      const auto now = clock::now();
      const std::chrono::duration<double> time = now - last_time;
      const std::int64_t ended = submitted_ - *left;
      if (time < interval || are_all_submitted) continue;
      const double rate = static_cast<double>(ended - last_ended) / time.count();
      slowest_rate_ = std::min(slowest_rate_.value_or(rate), rate);
      if (ended > last_ended) last_progress = now;
      longest_pause_ = std::max({longest_pause_, time.count(),
                                 std::chrono::duration<double>(now - last_progress).count()});
      last_time = now;
      last_ended = ended;
    }
  }

  task<> kill_workers() {
    for (std::size_t n = 0; killed_workers_ < limits_.max_kills; ++n) {
      co_await gyre::sleep_for(milliseconds{limits_.kill_worker});
      process& victim = workers_[n % workers_.size()];
      note_end(*victim);
      victim->kill(SIGKILL);
      co_await victim->wait();
      start(victim);
      ++killed_workers_;
    }
  }
  task<> kill_server() {
    auto next = std::chrono::steady_clock::now();
    while (killed_servers_ < (limits_.max_kills + 9) / 10) {
      // From kill to kill, unless the server takes that long to recover: within a lease after a
      // restart no job of a dead worker is taken over.
      next = std::max(next + milliseconds{limits_.kill_server},
                      std::chrono::steady_clock::now() + milliseconds{limits_.lease} + 1s);
      co_await gyre::sleep_for(next - std::chrono::steady_clock::now());
      co_await gyre::shielded(restart_server());
      ++killed_servers_;
    }
  }
  task<> restart_server() {
    measure_server();
    server_time_ += std::exchange(server_time_now_, 0);
    const auto begin = std::chrono::steady_clock::now();
    co_await server_.kill();
    co_await server_.start_again();
    time_without_server_ += std::chrono::steady_clock::now() - begin;
  }

  gyre::event_loop& loop_;
  const settings limits_;
  postgres_server server_;
  gyre::postgres::client db_;
  gyre::work::queue jobs_;
  std::vector<process> workers_;
  bool are_all_submitted_ = false;
  std::int64_t longest_backlog_ = 0;
  std::int64_t submitted_ = 0;
  std::int64_t peak_memory_ = 0;
  std::int64_t server_memory_ = 0;
  double worker_time_ = 0;
  double server_time_ = 0;      // of servers that were killed
  double server_time_now_ = 0;  // of the present one
  std::chrono::duration<double> time_without_server_{0};
  std::optional<double> slowest_rate_;
  double longest_pause_ = 0;
  const std::string load_ = load_averages();
  std::int64_t killed_workers_ = 0;
  std::int64_t killed_servers_ = 0;
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
    } else if (arguments[n] == "--max-jobs") {
      result.max_jobs = value;
    } else if (arguments[n] == "--max-kills") {
      result.max_kills = value;
    } else if (arguments[n] == "--disk") {
      result.is_on_disk = value != 0;
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
    if (count == 5 && arguments[1] == "--worker") {
      return work(values[2], std::atoll(values[3]),
                  static_cast<std::size_t>(std::atoll(values[4])));
    }
    gyre::loop loop;
    soak test(loop, read(arguments));
    return gyre::sync_wait(loop, test.run()) ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
}

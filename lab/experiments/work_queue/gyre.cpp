// SPDX-License-Identifier: Apache-2.0
// gyre: work::worker on a loop of its own in each process. A handler's effect is a statement on one
// of the client's shared connections, as those of the peers commit by themselves too.
#include <gyre/engines/postgres/client.hpp>
#include <gyre/engines/work/migrate.hpp>
#include <gyre/engines/work/queue.hpp>
#include <gyre/engines/work/worker.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>
#include <lab/experiments/work_queue/workload.hpp>
#include <lab/harness/gyre_io.hpp>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

namespace postgres = gyre::postgres;
namespace work = gyre::work;

constexpr const char* insert_effect = "insert into effect (number, payload) values ($1, $2)";
constexpr const char* insert_submission = "insert into submission (first, count) values ($1, $2)";

std::int32_t number_of(std::string_view text) {
  std::int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) throw std::invalid_argument("no number: " + std::string(text));
  return number;
}

std::string payload_of(std::int32_t number) {
  char digits[16];
  std::snprintf(digits, sizeof digits, "%08d", number);
  return digits + std::string(56, '.');
}

gyre::task<> run_worker(postgres::client& db) {
  work::worker worker(db);
  const auto handler = [&db](work::job& job) -> gyre::task<> {
    co_await db.execute(insert_effect, number_of(std::string_view(job.payload()).substr(0, 8)),
                        job.payload());
  };
  worker.handle(lab::work_queue::kind, handler, {.max_running = 256});
  co_await db.execute("insert into worker default values");
  co_await worker.run();
}

gyre::task<> submit_one(postgres::client& db, std::int32_t number) {
  work::queue jobs(db);
  const auto body = [&](postgres::transaction& tx) -> gyre::task<> {
    co_await tx.execute(insert_submission, number, 1);
    co_await jobs.submit(tx, lab::work_queue::kind, payload_of(number));
  };
  co_await db.transaction(body);
}

gyre::task<> submit_all(postgres::client& db, std::int32_t first, std::int32_t count) {
  work::queue jobs(db);
  std::vector<work::new_job> many;
  for (std::int32_t n = 0; n < count; ++n) many.push_back({.payload = payload_of(first + n)});
  const auto body = [&](postgres::transaction& tx) -> gyre::task<> {
    co_await tx.execute(insert_submission, first, count);
    co_await jobs.submit_many(tx, lab::work_queue::kind, many);
  };
  co_await db.transaction(body);
}

gyre::task<> submit(postgres::client& db, std::int32_t first, std::int32_t count,
                    std::chrono::microseconds interval) {
  if (interval == interval.zero()) {
    co_await submit_all(db, first, count);
    co_return;
  }
  const auto began = std::chrono::steady_clock::now();
  for (std::int32_t n = 0; n < count; ++n) {
    co_await gyre::sleep_until(began + n * interval);
    co_await submit_one(db, first + n);
  }
}

gyre::task<> play(postgres::client& db, std::string_view role, std::span<char* const> numbers) {
  if (role == "prepare") co_await work::migrate(db);
  if (role == "work") co_await run_worker(db);
  if (role == "submit" && numbers.size() == 3) {
    const std::chrono::microseconds interval{number_of(numbers[2])};
    co_await submit(db, number_of(numbers[0]), number_of(numbers[1]), interval);
  }
}

// One of the programs that the workload starts.
int part_main(std::span<char* const> words) {
  try {
    gyre::loop loop({.io = lab::contender_io});
    postgres::client_options options;
    options.server = "unix:" + std::string(words[1]) + "/.s.PGSQL.5432";
    options.user = "postgres";
    options.database = words[2];
    postgres::client db(loop, options);
    gyre::sync_wait(loop, play(db, words[0], words.subspan(3)));
    return 0;
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "%s: %s\n", words[0], problem.what());
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::span<char* const> words(argv, static_cast<std::size_t>(argc));
  constexpr std::size_t least = 4;
  if (words.size() >= least && !std::string_view(words[1]).starts_with("--")) {
    return part_main(words.subspan(1));
  }
  return lab::work_queue::contender_main(
      argc, argv,
      {.command = {"/proc/self/exe"},
       .unfinished = "select count(*) from work.job where ended_at is null",
       .probe = [] { lab::probe_contender_io(); }});
}

// SPDX-License-Identifier: Apache-2.0
// Throughput of a thread pool: ten users, each a thread, submit small tasks for a period and think
// in between; then the pool runs the rest. After the report 'A simple thread pool, part three'
// (cnblogs, 2021):
//
//   A  tasks submitted, B tasks left at the end of the period, C seconds until the last has run
//   throughput 1 = (A - B) / period, 2 = B / (C - period), 3 = A / C
#pragma once

#include <lab/experiments/pool/callables.hpp>
#include <lab/harness/affinity.hpp>
#include <lab/harness/contender.hpp>
#include <lab/harness/memory.hpp>
#include <lab/harness/timing.hpp>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace lab::pool {

/// The pause of a user between two submissions: none, std::this_thread::yield() (the report's 0
/// ms), or a sleep of a random time below that many milliseconds.
enum class think_time : std::uint32_t {
  none,
  yield,
  below_8_ms = 8,
  below_32_ms = 32,
  below_128_ms = 128,
  below_1024_ms = 1024,
};

struct parameters {
  think_time think = think_time::yield;
  std::uint32_t period_ms = 1000;
  std::uint32_t users = 10;
  std::uint32_t workers = 0;  ///< 0: one for each CPU that the process may use
};

/// The interface of a contender: a pool constructed with its number of workers, and destroyed when
/// every task has run, by the thread of the workload.
template <class Pool>
concept contender_pool = std::constructible_from<Pool, std::uint32_t> && requires(Pool& pool) {
  { pool.post(functor()) } -> std::same_as<bool>;  // any thread; false: refused
};

/// One of the users.
class user {
 public:
  explicit user(std::uint32_t seed) : random_(seed) {}

  /// Submits one task.
  template <contender_pool Pool>
  void submit_one(Pool& pool) {
    if (submit(pool, next_)) {
      ++accepted_.tasks;
      accepted_.sum += worth(next_);
    } else {
      ++refused_;
    }
    ++next_;
  }

  /// Submits tasks, with pauses, until the period is over.
  template <contender_pool Pool>
  void submit_until(const std::atomic<bool>& over, Pool& pool, think_time think,
                    clock::time_point end) {
    // relaxed: only tells when to stop.
    while (!over.load(std::memory_order_relaxed)) {
      submit_one(pool);
      switch (think) {
        case think_time::none: break;
        case think_time::yield: std::this_thread::yield(); break;
        default:
          if (!sleep(static_cast<std::uint32_t>(think), end)) return;
      }
    }
  }

  /// Counts a task that was not submitted, or submits a task without counting it.
  template <contender_pool Pool>
  void sabotage(Pool& pool, fault injected) {
    constexpr std::uint64_t number = 1'000'000'007;
    if (injected == fault::lose) {
      ++accepted_.tasks;
      accepted_.sum += worth(number);
    } else if (injected == fault::duplicate) {
      static_cast<void>(submit(pool, number));
    }
  }

  totals accepted() const { return accepted_; }
  std::uint64_t refused() const { return refused_; }

 private:
  /// Sleeps for a random time below `limit_ms`; false when the period ends before that.
  bool sleep(std::uint32_t limit_ms, clock::time_point end) {
    const auto until = clock::now() + std::chrono::milliseconds(random_() % limit_ms);
    std::this_thread::sleep_until(std::min(until, end));
    return until < end;
  }

  std::uint64_t next_ = 0;
  std::minstd_rand random_;
  totals accepted_;
  std::uint64_t refused_ = 0;
};

/// The tasks that the users have submitted so far. Only while no user submits.
inline totals accepted_from(const std::vector<user>& users) {
  totals all;
  for (const user& each : users) {
    all.tasks += each.accepted().tasks;
    all.sum += each.accepted().sum;
  }
  return all;
}

/// Waits until `tasks` tasks have run; false when no task has run for ten seconds.
inline bool wait_until_run(std::uint64_t tasks) {
  using namespace std::chrono_literals;
  std::uint64_t before = 0;
  clock::time_point moved = clock::now();
  for (;;) {
    const std::uint64_t now = run_counters::read().tasks;
    if (now >= tasks) return true;
    if (now != before) {
      before = now;
      moved = clock::now();
    } else if (clock::now() - moved > 10s) {
      return false;
    }
    std::this_thread::sleep_for(200us);
  }
}

/// Measurements at the end of the period and after the last task.
struct outcome {
  std::uint64_t submitted;  ///< A
  std::uint64_t left;       ///< B
  double period;
  double seconds;  ///< C
  double cpu_seconds;
};

inline void publish(const outcome& run, report& result) {
  const auto a = static_cast<double>(run.submitted);
  const auto b = static_cast<double>(run.left);
  const double draining = run.seconds - run.period;
  result.metric("tasks_per_second", a / run.seconds);
  result.metric("finished_per_second", (a - b) / run.period);
  // A drain that takes only a few polls of wait_until_run() is too short to be timed.
  if (draining > 0.005) result.metric("drained_per_second", b / draining);
  result.metric("submitted_per_second", a / run.period);
  result.metric("submitted", run.submitted);
  result.metric("left", run.left);
  result.metric("seconds", run.seconds);
  result.metric("cpu_seconds", run.cpu_seconds);
}

/// A few tasks of each user to warm up, then the period, on the same threads.
template <contender_pool Pool>
void run(const parameters& cell, const harness_options& harness, report& result) {
  constexpr int warm_up = 500;  // tasks of each user
  std::vector<user> users;
  for (std::uint32_t id = 0; id < cell.users; ++id) users.emplace_back(id + 1);
  std::optional<Pool> pool(std::in_place, cell.workers > 0 ? cell.workers : usable_cpus());

  stopwatch watch(harness.handicap);
  std::atomic<bool> over = false;
  clock::time_point began;
  clock::time_point end;
  std::uint64_t allocations_before = 0;
  double cpu_before = 0;
  std::barrier warm(cell.users + std::ptrdiff_t{1});
  // The last user to arrive runs this, before any user goes on.
  std::barrier start(cell.users + std::ptrdiff_t{1}, [&]() noexcept {
    allocations_before = allocations().value_or(0);
    cpu_before = cpu_seconds();
    watch.start();
    began = clock::now();
    end = began + std::chrono::milliseconds(cell.period_ms);
  });

  std::vector<std::jthread> threads;
  for (user& each : users) {
    threads.emplace_back([&] {
      for (int i = 0; i < warm_up; ++i) each.submit_one(*pool);
      warm.arrive_and_wait();
      start.arrive_and_wait();
      each.submit_until(over, *pool, cell.think, end);
    });
  }
  const auto await_accepted_tasks = [&] {
    const std::uint64_t tasks = accepted_from(users).tasks;
    if (wait_until_run(tasks)) return;
    result.check("finished", run_counters::read().tasks, tasks);
    result.abandon();
  };
  warm.arrive_and_wait();
  await_accepted_tasks();
  const std::uint64_t before = run_counters::read().tasks;
  // Injected first: a surplus task at the end might not have run when all others have.
  users.front().sabotage(*pool, harness.sabotage);
  start.arrive_and_wait();

  std::this_thread::sleep_until(end);
  over.store(true, std::memory_order_relaxed);  // relaxed: see submit_until().
  threads.clear();
  const std::chrono::duration<double> period = clock::now() - began;
  const totals accepted = accepted_from(users);
  const std::uint64_t left = accepted.tasks - std::min(run_counters::read().tasks, accepted.tasks);
  await_accepted_tasks();
  watch.stop();
  const double cpu = cpu_seconds() - cpu_before;
  const auto allocations_after = allocations();
  pool.reset();

  publish({.submitted = accepted.tasks - before,
           .left = left,
           .period = period.count(),
           .seconds = watch.seconds(),
           .cpu_seconds = cpu},
          result);
  std::uint64_t refused = 0;
  for (const user& each : users) refused += each.refused();
  result.metric("refused", refused);
  result.metric("peak_memory_bytes", peak_memory_bytes());
  if (allocations_after) {
    const auto count = static_cast<double>(*allocations_after - allocations_before);
    result.metric("allocations_per_task", count / static_cast<double>(accepted.tasks - before));
  }
  const totals finished = run_counters::read();
  result.units("task", finished.tasks);
  result.check("finished", finished.tasks, accepted.tasks);
  result.check("sum", finished.sum, accepted.sum);
}

/// The main() of a contender of this experiment.
template <contender_pool Pool>
int contender_main(int argc, const char* const* argv, libraries versions = {}) {
  parameters cell;
  arguments options;
  options
      .choice("think", cell.think, "pause of a user between two submissions",
              {{"none", think_time::none},
               {"yield", think_time::yield},
               {"below_8_ms", think_time::below_8_ms},
               {"below_32_ms", think_time::below_32_ms},
               {"below_128_ms", think_time::below_128_ms},
               {"below_1024_ms", think_time::below_1024_ms}})
      .number("period-ms", cell.period_ms, "milliseconds in which the users submit", 1)
      .number("users", cell.users, "threads that submit", 1, 1024)
      .number("workers", cell.workers, "threads of the pool; 0: one for each CPU", 0, 1024);
  return lab::contender_main(argc, argv, this_contender(std::move(versions)), options,
                             [&cell](const harness_options& harness, report& result) {
                               run<Pool>(cell, harness, result);
                             });
}

}  // namespace lab::pool

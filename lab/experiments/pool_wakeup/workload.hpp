// SPDX-License-Identifier: Apache-2.0
// Wake-up latency of an idle pool, to which one thread submits one task at a time, and the pool's
// CPU time while nothing is submitted.
#pragma once

#include <lab/harness/contender.hpp>
#include <lab/harness/histogram.hpp>
#include <lab/harness/timing.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <thread>
#include <utility>

namespace lab::pool_wakeup {

/// The submitter's pause between two tasks: a sleep of a millisecond, in which idle workers fall
/// asleep as well, or 20 microseconds of busy waiting, after which they may still be awake.
enum class gap { asleep, busy };

struct parameters {
  pool_wakeup::gap gap = gap::asleep;
  std::uint32_t posts = 1000;
  std::uint32_t idle_ms = 1000;  ///< time for which the idle pool's CPU use is measured
  std::uint32_t workers = 2;
};

class probe;

/// The submitted task.
struct task {
  probe* to;

  void operator()() const;
};

/// The interface of a contender: a pool constructed with its number of workers.
template <class Pool>
concept contender_pool =
    std::constructible_from<Pool, std::uint32_t> && requires(Pool& pool, task work) {
      pool.post(work);  // any thread
    };

/// Measures one task after the other.
class probe {
 public:
  explicit probe(const harness_options& harness) : watch_(harness.handicap) {}

  /// To be called before a task is posted.
  void start() {
    started_before_ = started();
    watch_.start();
  }

  /// To be called by the task.
  void stop() {
    watch_.stop();
    // release: pairs with the acquire in started(), so that the submitter sees the watch stopped.
    started_.fetch_add(1, std::memory_order_release);
  }

  /// Repeats the gap until the task has started; false after ten seconds. The processor time of the
  /// calling thread meanwhile is the workload's own.
  bool wait(gap between) {
    const double before = thread_cpu_seconds();
    const bool has_started = repeat_gap(between);
    waiting_cpu_seconds_ += thread_cpu_seconds() - before;
    return has_started;
  }

  /// Tasks that have started. Thread-safety: any thread.
  std::uint64_t started() const { return started_.load(std::memory_order_acquire); }

  std::uint64_t nanoseconds() const { return static_cast<std::uint64_t>(watch_.seconds() * 1e9); }

  /// Processor time of the process so far, without that of the gaps.
  double cpu_seconds_of_tasks() const { return cpu_seconds() - waiting_cpu_seconds_; }

 private:
  bool repeat_gap(gap between) const {
    using namespace std::chrono_literals;
    const clock::time_point begin = clock::now();
    do {
      if (clock::now() - begin > 10s) return false;
      if (between == gap::asleep) {
        std::this_thread::sleep_for(1ms);
      } else {
        const auto until = clock::now() + 20us;
        while (clock::now() < until) {
        }
      }
    } while (started() == started_before_);
    return true;
  }

  stopwatch watch_;
  std::atomic<std::uint64_t> started_ = 0;
  std::uint64_t started_before_ = 0;
  double waiting_cpu_seconds_ = 0;
};

inline void task::operator()() const { to->stop(); }

/// The share of one CPU that the process uses while nothing is submitted, in percent.
inline double idle_cpu_percent(std::uint32_t idle_ms) {
  using namespace std::chrono_literals;
  std::this_thread::sleep_for(20ms);  // some workers spin a little before they sleep
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(idle_ms));
  return (cpu_seconds() - before) * 100 / (idle_ms * 1e-3);
}

template <contender_pool Pool>
void run(const parameters& cell, const harness_options& harness, report& result) {
  const std::uint32_t warm_up = std::max(cell.posts / 50, 2u);
  probe meter(harness);
  histogram latencies;
  std::uint64_t posted = 0;
  double idle = 0;
  double cpu = 0;
  {
    Pool pool(cell.workers);
    for (std::uint32_t i = 0; i < warm_up + cell.posts; ++i) {
      if (i == warm_up) cpu = meter.cpu_seconds_of_tasks();
      const fault now = i == warm_up + cell.posts / 2 ? harness.sabotage : fault::none;
      meter.start();
      ++posted;
      if (now != fault::lose) pool.post(task{&meter});
      if (!meter.wait(cell.gap)) {
        result.check("started", meter.started(), posted);
        result.abandon();
      }
      if (i >= warm_up) latencies.record(meter.nanoseconds());
      if (now == fault::duplicate) {
        meter.start();
        pool.post(task{&meter});
        static_cast<void>(meter.wait(cell.gap));
      }
    }
    cpu = meter.cpu_seconds_of_tasks() - cpu;
    idle = idle_cpu_percent(cell.idle_ms);
  }
  result.metric("p50_ns", latencies.percentile(50));
  result.metric("p99_ns", latencies.percentile(99));
  result.metric("cpu_ns_per_task", cpu * 1e9 / cell.posts);
  result.metric("idle_cpu_percent", idle);
  result.units("post", posted);
  result.check("started", meter.started(), posted);
}

/// The main() of a contender of this experiment.
template <contender_pool Pool>
int contender_main(int argc, const char* const* argv, libraries versions = {}) {
  parameters cell;
  arguments options;
  options
      .choice("gap", cell.gap, "what the submitter does between two tasks",
              {{"asleep", gap::asleep}, {"busy", gap::busy}})
      .number("posts", cell.posts, "tasks, one after the other", 2)
      .number("idle-ms", cell.idle_ms, "how long nothing is submitted at the end, in ms", 1)
      .number("workers", cell.workers, "threads of the pool", 1, 1024);
  return lab::contender_main(argc, argv, this_contender(std::move(versions)), options,
                             [&cell](const harness_options& harness, report& result) {
                               run<Pool>(cell, harness, result);
                             });
}

}  // namespace lab::pool_wakeup

// SPDX-License-Identifier: Apache-2.0
// Cost of locking and unlocking in a coroutine: without contention, and with other tasks that
// always wait, so that each unlock hands the lock to another task, on the same loop or on a loop in
// another thread. A task with the lock increments a counter and stores its name. The first one with
// the lock yields until all tasks have begun: a thread that starts late would otherwise find the
// tasks of the other one done, and no lock would be handed from loop to loop.
#pragma once

#include <lab/harness/contender.hpp>
#include <lab/harness/memory.hpp>
#include <lab/harness/timing.hpp>

#include <atomic>
#include <concepts>
#include <cstdint>
#include <utility>

namespace lab::sync {

/// Contention for the lock: none, or three other tasks, two of which may be on another loop.
enum class contention { none, one_loop, two_loops };

struct parameters {
  sync::contention contention = contention::none;
  std::uint64_t locks = 1'000'000;  ///< in all
};

/// The data that the lock protects.
class guarded_counters {
 public:
  explicit guarded_counters(std::uint32_t tasks) : awaited_tasks_(tasks) {}

  /// To be called by each task before it locks for the first time.
  void begin_task() { --awaited_tasks_; }
  /// Whether a task that has the lock shall yield, as other tasks have not begun.
  bool awaits_tasks() const { return awaited_tasks_ > 0; }

  /// To be called with the lock held, in this order; a task of another name in between is an error.
  void enter(std::uint32_t task) {
    if (holder_ != no_task) crossings_ += is_of_second_loop(holder_) != is_of_second_loop(task);
    hand_overs_ += std::exchange(holder_, task) != task;
    ++uses_;
  }
  void leave(std::uint32_t task) { intrusions_ += holder_ != task; }

  std::uint64_t uses() const { return uses_; }
  std::uint64_t handed_over() const { return hand_overs_; }
  /// Hand-overs between tasks of the first half and of the second.
  std::uint64_t crossings() const { return crossings_; }
  std::uint64_t intrusions() const { return intrusions_; }

 private:
  static constexpr std::uint32_t no_task = ~0u;

  static bool is_of_second_loop(std::uint32_t task) { return task >= 2; }

  std::atomic<std::uint32_t> awaited_tasks_;
  std::uint32_t holder_ = no_task;
  std::uint64_t uses_ = 0;
  std::uint64_t hand_overs_ = 0;
  std::uint64_t crossings_ = 0;
  std::uint64_t intrusions_ = 0;
};

/// The work of one task.
struct job {
  guarded_counters& shared;
  std::uint32_t name;
  std::uint64_t locks;
};

/// The jobs of four tasks, and the job of a task that is alone.
struct jobs {
  jobs(guarded_counters& shared, std::uint64_t locks, fault sabotage)
      : each{job{shared, 0, locks / 4}, job{shared, 1, locks / 4}, job{shared, 2, locks / 4},
             job{shared, 3, locks / 4}},
        alone{shared, 0, locks} {
    if (sabotage == fault::none) return;
    for (job* one : {&each[0], &alone}) {
      sabotage == fault::lose ? --one->locks : ++one->locks;
    }
  }

  job each[4];
  job alone;
};

/// The interface of a contender. Each function runs tasks to their end. A task locks as often as
/// its job says, and calls enter() and leave() each time. Before its first lock it calls
/// begin_task(), and between the first two it yields while awaits_tasks().
template <class Lock>
concept contender_lock = std::default_initializable<Lock> &&
                         requires(Lock& lock, jobs& work) { lock.run_alone(work.alone); };
template <class Lock>
concept has_one_loop = requires(Lock& lock, jobs& work) { lock.run_on_one_loop(work.each); };
template <class Lock>
concept has_two_loops = requires(Lock& lock, jobs& work) {
  lock.run_on_two_loops(work.each);  // the second half on a thread of its own
};

template <contender_lock Lock>
void run_jobs(Lock& lock, jobs work, contention among) {
  if (among == contention::none) return lock.run_alone(work.alone);
  if constexpr (has_one_loop<Lock>) {
    if (among == contention::one_loop) return lock.run_on_one_loop(work.each);
  }
  if constexpr (has_two_loops<Lock>) {
    if (among == contention::two_loops) return lock.run_on_two_loops(work.each);
  }
  throw usage_error("this contender has no such contention");
}

/// A small round warms up, the second is timed.
template <contender_lock Lock>
void run(const parameters& cell, const harness_options& harness, report& result) {
  Lock lock;
  const std::uint32_t tasks = cell.contention == contention::none ? 1 : 4;
  guarded_counters warm_up(tasks);
  const std::uint64_t few = cell.locks / 50 + 4;
  run_jobs(lock, jobs(warm_up, few, fault::none), cell.contention);

  guarded_counters shared(tasks);
  stopwatch watch(harness.handicap);
  const auto allocations_before = allocations();
  const double cpu_before = cpu_seconds();
  watch.start();
  run_jobs(lock, jobs(shared, cell.locks, harness.sabotage), cell.contention);
  watch.stop();
  const double cpu = cpu_seconds() - cpu_before;
  const auto allocations_after = allocations();

  const auto locks = static_cast<double>(cell.locks);
  result.metric("ns_per_lock", watch.seconds() * 1e9 / locks);
  result.metric("cpu_ns_per_lock", cpu * 1e9 / locks);
  result.metric("seconds", watch.seconds());
  result.metric("handed_over", static_cast<double>(shared.handed_over()) / locks);
  if (cell.contention == contention::two_loops) {
    result.metric("crossings", static_cast<double>(shared.crossings()) / locks);
    // A lock that is handed over in turn crosses at every second lock, or oftener. std::mutex has
    // no tasks that begin, and may be taken again by the thread that has just left it.
    if (!shared.awaits_tasks()) {
      result.check("seldom_crossed", shared.crossings() < cell.locks / 4 ? 1 : 0, 0);
    }
  }
  if (allocations_after) {
    const auto count = static_cast<double>(*allocations_after - *allocations_before);
    result.metric("allocations_per_lock", count / locks);
  }
  result.units("lock", few + cell.locks);
  result.check("locked", shared.uses(), cell.locks);
  result.check("intrusions", shared.intrusions(), 0);
}

/// The main() of a contender of this experiment.
template <contender_lock Lock>
int contender_main(int argc, const char* const* argv, libraries versions = {}) {
  parameters cell;
  arguments options;
  options
      .choice("contention", cell.contention, "other tasks that want the lock",
              {{"none", contention::none},
               {"one_loop", contention::one_loop},
               {"two_loops", contention::two_loops}})
      .number("locks", cell.locks, "lock operations in all, a multiple of four", 1'000,
              std::uint64_t{1} << 40);
  return lab::contender_main(argc, argv, this_contender(std::move(versions)), options,
                             [&cell](const harness_options& harness, report& result) {
                               cell.locks -= cell.locks % 4;
                               run<Lock>(cell, harness, result);
                             });
}

}  // namespace lab::sync

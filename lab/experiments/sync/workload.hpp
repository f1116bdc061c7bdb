// SPDX-License-Identifier: Apache-2.0
// What it costs a coroutine to lock and unlock: when nobody else wants the lock, and when others
// always wait for it, so that each unlock hands it to another task, on the same loop or on one in
// another thread. With the lock held a task counts and notes its name; it gives way only once, so
// that the others come to wait.
#pragma once

#include <lab/harness/contender.hpp>
#include <lab/harness/memory.hpp>
#include <lab/harness/timing.hpp>

#include <concepts>
#include <cstdint>
#include <utility>

namespace lab::sync {

/// Who else wants the lock: nobody, or three other tasks, of which two may be on another loop.
enum class contention { none, one_loop, two_loops };

struct parameters {
  sync::contention contention = contention::none;
  std::uint64_t locks = 1'000'000;  ///< in all
};

/// What the lock protects.
class ledger {
 public:
  /// With the lock held, in this order; a task of another name in between is a failure.
  void enter(std::uint32_t task) {
    handed_over_ += std::exchange(holder_, task) != task;
    ++uses_;
  }
  void leave(std::uint32_t task) { intrusions_ += holder_ != task; }

  std::uint64_t uses() const { return uses_; }
  std::uint64_t handed_over() const { return handed_over_; }
  std::uint64_t intrusions() const { return intrusions_; }

 private:
  std::uint32_t holder_ = ~0u;
  std::uint64_t uses_ = 0;
  std::uint64_t handed_over_ = 0;
  std::uint64_t intrusions_ = 0;
};

/// What one task is to do.
struct job {
  ledger& shared;
  std::uint32_t name;
  std::uint64_t locks;
};

/// Four jobs, or one.
struct jobs {
  jobs(ledger& shared, std::uint64_t locks, mishap sabotage)
      : each{job{shared, 0, locks / 4}, job{shared, 1, locks / 4}, job{shared, 2, locks / 4},
             job{shared, 3, locks / 4}},
        alone{shared, 0, locks} {
    if (sabotage == mishap::none) return;
    for (job* one : {&each[0], &alone}) {
      sabotage == mishap::lose ? --one->locks : ++one->locks;
    }
  }

  job each[4];
  job alone;
};

/// What a contender must offer. Each runs tasks until they are done; a task locks as often as its
/// job says, enters, and leaves, and gives way the first time in between.
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
  throw usage_error("there is no such contention here");
}

/// A small round warms up, the second is timed.
template <contender_lock Lock>
void run(const parameters& cell, const harness_options& harness, report& result) {
  Lock lock;
  ledger warm_up;
  run_jobs(lock, jobs(warm_up, cell.locks / 50 + 4, mishap::none), cell.contention);

  ledger shared;
  stopwatch watch(harness.handicap);
  const auto allocations_before = allocations();
  watch.start();
  run_jobs(lock, jobs(shared, cell.locks, harness.sabotage), cell.contention);
  watch.stop();
  const auto allocations_after = allocations();

  const auto locks = static_cast<double>(cell.locks);
  result.metric("ns_per_lock", watch.seconds() * 1e9 / locks);
  result.metric("seconds", watch.seconds());
  result.metric("handed_over", static_cast<double>(shared.handed_over()) / locks);
  if (allocations_after) {
    const auto made = static_cast<double>(*allocations_after - *allocations_before);
    result.metric("allocations_per_lock", made / locks);
  }
  result.check("locked", shared.uses(), cell.locks);
  result.check("intrusions", shared.intrusions(), 0);
}

/// The main() of a contender of this experiment.
template <contender_lock Lock>
int contender_main(int argc, const char* const* argv, libraries versions = {}) {
  parameters cell;
  arguments options;
  options
      .choice("contention", cell.contention, "who else wants the lock",
              {{"none", contention::none},
               {"one_loop", contention::one_loop},
               {"two_loops", contention::two_loops}})
      .number("locks", cell.locks, "times it is locked in all, by four", 1'000,
              std::uint64_t{1} << 40);
  return lab::contender_main(argc, argv, this_contender(std::move(versions)), options,
                             [&cell](const harness_options& harness, report& result) {
                               cell.locks -= cell.locks % 4;
                               run<Lock>(cell, harness, result);
                             });
}

}  // namespace lab::sync

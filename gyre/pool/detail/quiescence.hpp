// SPDX-License-Identifier: Apache-2.0
// quiescence: detects that no task of a pool waits or runs, and lets threads wait for that.
#pragma once

#include <gyre/base/clock.hpp>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace gyre::detail {

class pool_worker;
class task_scheduler;
class worker_set;

/// By counting, with no counter that two threads write for every task: each worker counts for
/// itself what it submits and finishes, and a scheduler's queues what is put into them.
///
/// Thread-safety: all members may be called from any thread.
class quiescence {
 public:
  quiescence(const worker_set& workers, const task_scheduler& scheduler) noexcept
      : workers_(workers), scheduler_(scheduler) {}

  // These count tasks that have ended, but that no worker counts.
  void count_dropped() noexcept { dropped_.fetch_add(1, std::memory_order_acq_rel); }
  void count_run_outside() noexcept { run_outside_.fetch_add(1, std::memory_order_release); }
  // relaxed: each figure stands for itself.
  std::uint64_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }
  std::uint64_t run_outside() const noexcept {
    return run_outside_.load(std::memory_order_relaxed);
  }

  /// After a count that may be the last: wakes the threads that wait. A load if there are none.
  void notify() noexcept;
  /// Waits until every task has ended, or until `deadline`: whether they have. `self` is the
  /// calling thread if it is a worker: it helps meanwhile, and the tasks that it runs are left out,
  /// as are those of other workers that wait.
  bool wait(pool_worker* self, steady_time deadline) noexcept;

 private:
  bool is_reached(bool is_task) const noexcept;

  const worker_set& workers_;
  const task_scheduler& scheduler_;
  std::atomic<std::uint64_t> dropped_{0};
  std::atomic<std::uint64_t> run_outside_{0};

  std::atomic<std::size_t> waiters_{0};
  std::atomic<std::size_t> waiting_tasks_{0};  // they wait here until all others have ended
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace gyre::detail

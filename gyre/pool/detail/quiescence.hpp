// SPDX-License-Identifier: Apache-2.0
// quiescence: detects that no task of a pool is queued or running, and lets threads wait for that.
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

/// Detects quiescence without a counter that several threads write for every task: each worker
/// counts the tasks that it submits and finishes, and a scheduler counts the items put into its
/// queues.
///
/// Thread-safety: all members may be called from any thread.
class quiescence {
 public:
  quiescence(const worker_set& workers, const task_scheduler& scheduler) noexcept
      : workers_(workers), scheduler_(scheduler) {}

  // These functions count ended tasks that no worker counts.
  void count_dropped() noexcept { dropped_tasks_.fetch_add(1, std::memory_order_acq_rel); }
  void count_run_outside() noexcept { run_outside_.fetch_add(1, std::memory_order_release); }
  // relaxed: the counter is a statistic, which guards no other data.
  std::uint64_t dropped() const noexcept { return dropped_tasks_.load(std::memory_order_relaxed); }
  std::uint64_t tasks_run_outside() const noexcept {
    return run_outside_.load(std::memory_order_relaxed);
  }

  /// Wakes the waiting threads. Must be called after each count that may be the last. Costs one
  /// load if no thread waits.
  void notify() noexcept;
  /// Waits until every task has ended (true) or until `deadline` (false). `self` is the calling
  /// thread's worker, or null. A worker runs other tasks meanwhile; it does not wait for the tasks
  /// that it runs itself, nor for tasks of other workers that wait here.
  bool wait(pool_worker* self, steady_time deadline) noexcept;

 private:
  bool is_reached(bool is_task) const noexcept;

  const worker_set& workers_;
  const task_scheduler& scheduler_;
  std::atomic<std::uint64_t> dropped_tasks_{0};
  std::atomic<std::uint64_t> run_outside_{0};

  std::atomic<std::size_t> waiters_{0};
  std::atomic<std::size_t> waiting_tasks_{0};  // the running tasks that wait here
  std::mutex mutex_;
  std::condition_variable condition_;
};

}  // namespace gyre::detail

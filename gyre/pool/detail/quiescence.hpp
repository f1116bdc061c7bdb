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

/// Counts tasks without a counter that two threads write for every task: each worker counts the
/// tasks that it submits and finishes, and the queues of a scheduler count the items put into them.
///
/// Thread-safety: all members may be called from any thread.
class quiescence {
 public:
  quiescence(const worker_set& workers, const task_scheduler& scheduler) noexcept
      : workers_(workers), scheduler_(scheduler) {}

  // These count ended tasks that no worker counts.
  void count_dropped() noexcept { dropped_.fetch_add(1, std::memory_order_acq_rel); }
  void count_run_outside() noexcept { run_outside_.fetch_add(1, std::memory_order_release); }
  // relaxed: each figure stands for itself.
  std::uint64_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }
  std::uint64_t run_outside() const noexcept {
    return run_outside_.load(std::memory_order_relaxed);
  }

  /// Called after each count that may be the last: wakes the threads that wait. A load if none
  /// does.
  void notify() noexcept;
  /// Waits until every task has ended (true) or until `deadline`. `self` is the worker that the
  /// calling thread is, or null. A worker helps meanwhile, and does not wait for the tasks that it
  /// runs itself, nor for those of other workers that wait.
  bool wait(pool_worker* self, steady_time deadline) noexcept;

 private:
  bool is_reached(bool by_task) const noexcept;

  const worker_set& workers_;
  const task_scheduler& scheduler_;
  std::atomic<std::uint64_t> dropped_{0};
  std::atomic<std::uint64_t> run_outside_{0};

  std::atomic<std::size_t> waiters_{0};
  std::atomic<std::size_t> waiting_tasks_{0};  // tasks that wait here until all others have ended
  std::mutex mutex_;
  std::condition_variable condition_;
};

}  // namespace gyre::detail

// SPDX-License-Identifier: Apache-2.0
// item_runner: runs and drops the items of a pool, and counts the end of each item.
#pragma once

#include <gyre/pool/detail/admission.hpp>
#include <gyre/pool/detail/callable_ref.hpp>
#include <gyre/pool/detail/delayed_tasks.hpp>
#include <gyre/pool/detail/drained_batch.hpp>
#include <gyre/pool/detail/exception_guard.hpp>
#include <gyre/pool/detail/life_cycle.hpp>
#include <gyre/pool/detail/pool_task.hpp>
#include <gyre/pool/detail/pool_worker.hpp>
#include <gyre/pool/detail/quiescence.hpp>
#include <gyre/pool/detail/task_scheduler.hpp>

#include <atomic>
#include <cstdint>

namespace gyre::detail {

/// Runs and drops items: releases the slots of tasks, passes their exceptions to on_exception, and
/// counts their ends.
///
/// Thread-safety: all members may be called from any thread.
class item_runner final : public in_place_runner, public delayed_task_runner {
 public:
  /// Lifetime: all arguments must outlive this object.
  item_runner(const life_cycle& state, admission& slots, exception_guard& guard,
              quiescence& counters) noexcept
      : life_cycle_(state), slots_(slots), guard_(guard), quiescence_(counters) {}

  /// Runs an item on the calling worker. While the pool drops tasks, drops a task instead.
  void run(pool_worker& self, work_item item) noexcept;
  /// Drops a task that was taken out of the scheduler.
  void drop(pool_task& task) noexcept;
  /// Runs all remaining items. Called after the workers have ended.
  void run_leftovers(task_scheduler& scheduler) noexcept;
  /// Whether the calling thread is within run_leftovers(); such a thread runs what it submits
  /// itself.
  bool is_running_leftovers() const noexcept;

  void run_in_place(callable_ref callable) noexcept override;
  void run_due(pool_task& task) noexcept override;
  void drop_delayed(pool_task& task) noexcept override;

  // relaxed: statistics, which guard no other data.
  std::uint64_t dropped_delayed_tasks() const noexcept {
    return dropped_delayed_tasks_.load(std::memory_order_relaxed);
  }
  bool has_dropped_while_stopping() const noexcept {
    return dropped_while_stopping_.load(std::memory_order_relaxed);
  }

 private:
  void execute(pool_worker& self, work_item item) noexcept;

  const life_cycle& life_cycle_;
  admission& slots_;
  exception_guard& guard_;
  detail::quiescence& quiescence_;
  std::atomic<std::uint64_t> dropped_delayed_tasks_{0};
  std::atomic<bool> dropped_while_stopping_{false};
};

}  // namespace gyre::detail

// SPDX-License-Identifier: Apache-2.0
// item_runner: runs and drops the items of a pool, and accounts for each of them.
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

/// Releases the slot of a task, hands its exception to on_exception, and counts its end.
///
/// Thread-safety: all members may be called from any thread.
class item_runner final : public in_place_runner, public delayed_task_runner {
 public:
  /// Lifetime: all arguments must outlive this.
  item_runner(const life_cycle& state, admission& slots, exception_guard& guard,
              quiescence& counters) noexcept
      : life_cycle_(state), slots_(slots), guard_(guard), quiescence_(counters) {}

  /// Runs an item on the calling worker. Drops a task instead while the pool drops tasks.
  void run(pool_worker& self, work_item item) noexcept;
  /// Drops a task that was taken out of the scheduler.
  void drop(pool_task& task) noexcept;
  /// Runs all items that are left, once the workers have ended.
  void run_leftovers(task_scheduler& scheduler) noexcept;
  /// Whether the calling thread is within run_leftovers(), and so runs what it submits.
  bool is_running_leftovers() const noexcept;

  void run_in_place(callable_ref callable) noexcept override;
  void run_due(pool_task& task) noexcept override;
  void drop_delayed(pool_task& task) noexcept override;

  // relaxed: each figure stands for itself.
  std::uint64_t delayed_dropped() const noexcept {
    return delayed_dropped_.load(std::memory_order_relaxed);
  }
  bool has_dropped_while_stopping() const noexcept {
    return dropped_while_stopping_.load(std::memory_order_relaxed);
  }

 private:
  const life_cycle& life_cycle_;
  admission& slots_;
  exception_guard& guard_;
  detail::quiescence& quiescence_;
  std::atomic<std::uint64_t> delayed_dropped_{0};
  std::atomic<bool> dropped_while_stopping_{false};
};

}  // namespace gyre::detail

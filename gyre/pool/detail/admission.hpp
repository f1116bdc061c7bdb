// SPDX-License-Identifier: Apache-2.0
// admission: lets tasks into a pool up to its capacity, and applies thread_pool_options::when_full.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/pool/detail/capacity.hpp>
#include <gyre/pool/detail/pool_worker.hpp>
#include <gyre/pool/detail/task_builder.hpp>
#include <gyre/pool/detail/task_scheduler.hpp>
#include <gyre/pool/pool_options.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace gyre::detail {

/// Thread-safety: all members may be called from any thread.
class admission {
 public:
  /// Once the pool has its options, slots and scheduler.
  explicit admission(pool_core& pool) noexcept;

  const task_scheduler::inbound_queue& inbound() const noexcept { return inbound_; }
  /// The inbound queue if its cells take callables; not where tasks are timed.
  submissions* cells() const noexcept { return cells_; }

  /// As the pool's when_full says.
  admission_result submit_as_worker(pool_worker& self, task_builder builder,
                                    task_priority priority);
  /// The reaction of a caller that is to wait for a slot; a coroutine suspends in the queue.
  enum class waiting : std::uint8_t { blocks, suspends, fails };
  /// For threads other than the pool's workers. `has_slot`: the caller has a slot.
  admission_result submit_from_outside(task_builder builder, task_priority priority, waiting caller,
                                       bool has_slot = false);
  /// Never blocks: must_wait, with the callable untouched, if the caller is to queue for a slot.
  admission_result submit_now(task_builder builder, task_priority priority);
  /// For a caller that has queued, and has a slot.
  admission_result submit_admitted(task_builder builder, task_priority priority);
  admission_result submit_at(task_builder builder, steady_time when);
  /// Runs a callable of the calling thread, and counts it.
  void run_here(callable_ref callable) noexcept;
  /// Counts a refusal.
  admission_result refuse(admission_result reason) noexcept;

  /// Releases the slots that ended threads hold.
  void reclaim() noexcept;
  /// The worker starts the task.
  void release_slot(pool_worker& self, const pool_task& task) noexcept {
    task.has_slot ? release_slot_later(self) : remove_slotless();
  }
  /// No worker starts the task.
  void release_slot(bool had_slot) noexcept { had_slot ? slots_.release(1) : remove_slotless(); }

  // relaxed: each figure stands for itself.
  std::uint64_t refused() const noexcept { return refused_.load(std::memory_order_relaxed); }
  std::uint64_t run_by_submitter() const noexcept {
    return run_by_submitter_.load(std::memory_order_relaxed);
  }

 private:
  // How a submission to a full pool goes on.
  enum class next_step : std::uint8_t {
    retry,
    run_here,
    go_slotless,
    must_wait,
    full,
    timed_out,
    closed,
  };

  pool_task& make_task(const task_builder& builder) const;
  bool takes_inbound(task_priority priority) const noexcept {
    return inbound_.queue != nullptr && priority == task_priority::normal;
  }
  bool store(const task_builder& builder, task_priority priority, bool& has_slot);
  admission_result run_here(const task_builder& builder);
  next_step when_full_outside(task_priority priority, waiting caller, steady_time& deadline,
                              bool& has_slot);
  next_step when_full_within() noexcept;
  bool drop_one() noexcept;

  // A worker keeps the slots of tasks that have started for its own, and releases them in chunks.
  bool take_slot(pool_worker& self) noexcept {
    if (self.free_slots == 0) return slots_.try_acquire(1);
    --self.free_slots;
    return true;
  }
  void release_slot_later(pool_worker& self) noexcept {
    if (++self.free_slots >= slots_.chunk() || slots_.is_urgent()) {
      slots_.release(std::exchange(self.free_slots, 0));
    }
  }
  void add_slotless() noexcept { slotless_.fetch_add(1, std::memory_order_relaxed); }
  void remove_slotless() noexcept { slotless_.fetch_sub(1, std::memory_order_relaxed); }
  bool has_room_without_slot() const noexcept;

  pool_core& pool_;
  capacity& slots_;
  const task_scheduler::inbound_queue inbound_;
  submissions* const cells_;
  std::atomic<std::size_t> slotless_{0};  // tasks that wait without a slot
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::uint64_t> run_by_submitter_{0};
};

}  // namespace gyre::detail

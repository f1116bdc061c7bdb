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
#include <memory>
#include <utility>

namespace gyre::detail {

/// Thread-safety: all members may be called from any thread.
class admission {
 public:
  /// Once the pool has its options, slots and scheduler.
  explicit admission(pool_core& pool) noexcept;

  /// The reaction of a caller that is to wait for a slot; a coroutine suspends in the queue, and
  /// gets must_wait, with the callable untouched.
  enum class waiting : std::uint8_t { blocks, suspends, fails };
  /// As the pool's when_full says.
  inline admission_result submit(task_builder builder, task_priority priority, waiting caller);
  /// The same for a coroutine, without submit()'s inlined fast path.
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
  struct return_slot {
    void operator()(capacity* of) const noexcept { of->release(1); }
  };
  using held_slot = std::unique_ptr<capacity, return_slot>;

  admission_result submit_as_worker(pool_worker& self, task_builder builder,
                                    task_priority priority);
  admission_result submit_from_outside(task_builder builder, task_priority priority, waiting caller,
                                       held_slot slot = nullptr);
  pool_task& make_task(const task_builder& builder, held_slot& slot);
  bool takes_inbound(task_priority priority) const noexcept {
    return inbound_.queue != nullptr && priority == task_priority::normal;
  }
  bool store(const task_builder& builder, task_priority priority, held_slot& slot);
  admission_result run_here(const task_builder& builder);
  // How a submission to a full pool goes on; granted: it is to try again.
  admission_result when_full_outside(task_priority priority, waiting caller, steady_time& deadline,
                                     held_slot& slot);
  admission_result when_full_within() noexcept;
  bool drop_one() noexcept;

  // Whether the caller has a slot then.
  bool take_slot(held_slot& slot) noexcept {
    if (slot == nullptr && slots_.try_acquire(1)) slot.reset(&slots_);
    return slot != nullptr;
  }
  // A worker keeps the slots of tasks that have started for its own, and releases them in chunks.
  bool take_slot(pool_worker& self, held_slot& slot) noexcept {
    if (self.free_slots == 0) return take_slot(slot);
    --self.free_slots;
    slot.reset(&slots_);
    return true;
  }
  void release_slot_later(pool_worker& self) noexcept {
    if (++self.free_slots >= slots_.chunk() || slots_.is_urgent()) {
      slots_.release(std::exchange(self.free_slots, 0));
    }
  }
  void remove_slotless() noexcept { slotless_.fetch_sub(1, std::memory_order_relaxed); }
  bool has_room_without_slot() const noexcept;

  pool_core& pool_;
  capacity& slots_;
  const task_scheduler::inbound_queue inbound_;
  submissions* const cells_;              // the inbound queue, but not where tasks are timed
  std::atomic<std::size_t> slotless_{0};  // tasks that wait without a slot
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::uint64_t> run_by_submitter_{0};
};

}  // namespace gyre::detail

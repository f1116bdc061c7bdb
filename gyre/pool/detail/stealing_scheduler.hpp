// SPDX-License-Identifier: Apache-2.0
// The work-stealing scheduler: a queue for each thread that submits and for each worker. Sources:
// Blumofe and Leiserson, "Scheduling multithreaded computations by work stealing", 1999; the order
// in which a worker looks for work, and its turns of fairness, follow Go's and Tokio's schedulers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <gyre/base/intrusive_queue.hpp>
#include <gyre/base/intrusive_stack.hpp>
#include <gyre/pool/detail/idle_workers.hpp>
#include <gyre/pool/detail/pool_core.hpp>
#include <gyre/pool/detail/priority_lanes.hpp>
#include <gyre/sync/detail/spin_lock.hpp>

namespace gyre::detail {

/// A worker looks at what is urgent, at its own deque, at what threads have submitted, of which it
/// moves up to 256 to its deque at once, and at the deques of others; every 61st time at the
/// submissions before its own.
class stealing_pool final : public pool_core {
 public:
  explicit stealing_pool(thread_pool_options&& options);
  ~stealing_pool() override;

 private:
  friend pool_core;  // runs the worker's loop

  void enqueue(pool_task& task, task_priority priority) noexcept override;
  void enqueue(operation& op) noexcept override;
  void enqueue_own(pool_worker& self, pool_task& task) noexcept override;
  bool offer_own(pool_worker& self, operation& op) noexcept override;
  work_item next(pool_worker& self) noexcept override;
  void work(pool_worker& self) noexcept override;
  pool_task* take_waiting() noexcept override;
  work_item take_left() noexcept override;
  void wake_all() noexcept override { idle_.notify_all(); }
  void resized(std::size_t workers) noexcept override { idle_.resize(workers); }
  std::uint64_t enqueued() const noexcept override;
  std::uint64_t wakeups() const noexcept override { return idle_.counts().wakes; }

  void leave_queues(pool_worker& self) noexcept override;
  void return_taken(pool_worker& self, work_item item) noexcept override;
  void found(pool_worker& self) noexcept;
  void rest(pool_worker& self) noexcept;
  work_item find(pool_worker& self) noexcept;
  work_item take_fairly(pool_worker& self) noexcept;
  work_item take_submitted(pool_worker& self, std::size_t most) noexcept;
  work_item take_left_over(pool_worker& self) noexcept;
  pool_task* take_prioritized() noexcept;
  template <class Take>
  pool_task* take_lane(Take&& take) noexcept;
  work_item steal(pool_worker& self) noexcept;
  void keep(pool_worker& self, work_item item) noexcept;
  bool has_work(const pool_worker& self) noexcept;
  bool work_waits() noexcept;
  void put_back(work_item item) noexcept;
  work_item take_from_queues() noexcept;
  void count_lanes() noexcept;

  submissions queue_;
  idle_workers idle_;
  atomic_intrusive_stack<operation> left_over_;  // by submissions that could not grow

  // Tasks of other than normal priority, delayed ones, and what was taken in vain.
  spin_lock lanes_lock_;
  priority_lanes lanes_;
  std::atomic<std::size_t> lanes_waiting_{0};
  std::atomic<std::size_t> high_waiting_{0};
  std::atomic<std::uint64_t> enqueued_{0};  // into the lanes, and left over
};

}  // namespace gyre::detail

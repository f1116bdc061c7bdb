// SPDX-License-Identifier: Apache-2.0
// stealing_scheduler: work stealing, with a queue for each submitting thread and each worker.
// Sources: Blumofe and Leiserson, "Scheduling multithreaded computations by work stealing", 1999;
// the order in which a worker searches queues, and its fair turns, follow Go and Tokio.
#pragma once

#include <gyre/base/intrusive_stack.hpp>
#include <gyre/pool/detail/admission.hpp>
#include <gyre/pool/detail/drained_batch.hpp>
#include <gyre/pool/detail/idle_workers.hpp>
#include <gyre/pool/detail/life_cycle.hpp>
#include <gyre/pool/detail/priority_lanes.hpp>
#include <gyre/pool/detail/submissions.hpp>
#include <gyre/pool/detail/task_scheduler.hpp>
#include <gyre/pool/detail/worker_set.hpp>
#include <gyre/sync/detail/spin_lock.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace gyre::detail {

/// A worker searches for its next item in this order: tasks of high priority; its own deque; the
/// submissions (it moves up to 256 of them to its deque at once); tasks of other priorities; the
/// deques of other workers. Every 61st search takes an item from a later queue first.
class stealing_scheduler final : public task_scheduler {
 public:
  /// Lifetime: all arguments must outlive this object.
  stealing_scheduler(const thread_pool_options& options, const life_cycle& state,
                     const worker_set& workers, std::shared_ptr<admission> slots,
                     in_place_runner& runner);

  inbound_queue inbound() noexcept override { return {&submissions_, &idle_workers_}; }
  void enqueue(pool_task& task, task_priority priority) noexcept override;
  void enqueue(operation& op) noexcept override;
  void enqueue_from_worker(pool_worker& self, pool_task& task) noexcept override;
  work_item next(pool_worker& self) noexcept override;
  void put_back(pool_worker& self, work_item item) noexcept override;
  void release_queue(pool_worker& self) noexcept override;
  pool_task* take_least_urgent() noexcept override;
  work_item take_leftover() noexcept override;
  void wake_all() noexcept override { idle_workers_.notify_all(); }
  void resize(std::size_t workers) noexcept override { idle_workers_.resize(workers); }
  std::uint64_t enqueued() const noexcept override;
  std::uint64_t wakeups() const noexcept override { return idle_workers_.wakes(); }

  // worker_loop calls the three functions below.
  void begin_work(pool_worker& self) noexcept { self.idle_peers = &idle_workers_; }
  void stop_searching(pool_worker& self) noexcept;
  void wait_for_work(pool_worker& self) noexcept;

 private:
  work_item take_fairly(pool_worker& self) noexcept;
  work_item take_submitted(pool_worker& self, std::size_t max_items) noexcept;
  work_item take_overflow(pool_worker& self) noexcept;
  pool_task* take_prioritized() noexcept;
  template <class Take>
  pool_task* take_lane(Take&& take) noexcept;
  work_item steal(pool_worker& self) noexcept;
  work_item steal_if_it_pays(pool_worker& self) noexcept;
  work_item take_from_queues() noexcept;
  void push_to_deque(pool_worker& self, work_item item) noexcept;
  void put_back(work_item item) noexcept;
  bool search(pool_worker& self) noexcept;
  bool has_work(const pool_worker& self) noexcept;
  bool has_waiting_items(const pool_worker& self) noexcept;
  bool has_inbound_items() noexcept;
  bool others_have_work(const pool_worker& self) const noexcept;
  void count_lanes() noexcept;

  in_place_runner& runner_;
  const life_cycle& life_cycle_;
  const worker_set& workers_;
  submissions submissions_;
  idle_workers idle_workers_;
  atomic_intrusive_stack<operation> overflow_;  // the operations for which there was no memory

  // lanes_ has tasks of high and low priority, tasks without a slot, and tasks that were put back.
  spin_lock lanes_lock_;
  priority_lanes lanes_;
  std::atomic<std::size_t> lanes_waiting_{0};
  std::atomic<std::size_t> high_waiting_{0};
  // The items that were put into lanes_ and overflow_.
  std::atomic<std::uint64_t> enqueued_items_{0};
};

}  // namespace gyre::detail

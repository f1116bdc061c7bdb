// SPDX-License-Identifier: Apache-2.0
// task_scheduler: the queues in which the tasks of a pool wait, and the sleep of its workers.
#pragma once

#include <gyre/pool/detail/idle_workers.hpp>
#include <gyre/pool/detail/pool_task.hpp>
#include <gyre/pool/detail/pool_worker.hpp>
#include <gyre/pool/detail/submissions.hpp>
#include <gyre/pool/pool_options.hpp>

#include <cstddef>
#include <cstdint>

namespace gyre::detail {

/// The interface of the schedulers. Functions that add work also wake a worker for it.
///
/// Thread-safety: functions with a worker are called by that worker, all others by any thread.
class task_scheduler {
 public:
  virtual ~task_scheduler() = default;

  /// The queue that stores callables of normal priority from outside the pool without a block each,
  /// and the workers to notify. Null if the scheduler has no such queue.
  struct inbound_queue {
    submissions* queue = nullptr;
    idle_workers* idle = nullptr;
  };
  virtual inbound_queue inbound() noexcept { return {}; }

  virtual void enqueue(pool_task& task, task_priority priority) noexcept = 0;
  virtual void enqueue(operation& op) noexcept = 0;
  /// Adds a task that the worker itself has submitted.
  virtual void enqueue_from_worker(pool_worker& self, pool_task& task) noexcept = 0;

  /// Takes the item to run next; empty if there is none.
  virtual work_item next(pool_worker& self) noexcept = 0;
  /// Puts back the item that was taken last, so that it is taken next.
  virtual void put_back(pool_worker& self, work_item item) noexcept = 0;
  /// Makes the items of a worker that is about to end available to the others.
  virtual void release_queue(pool_worker&) noexcept {}

  /// Takes the oldest waiting task of the lowest priority; null if none was found.
  virtual pool_task* take_least_urgent() noexcept = 0;
  /// Takes any item; empty if there is none. Called after the workers have ended.
  virtual work_item take_leftover() noexcept = 0;

  virtual void wake_all() noexcept = 0;
  virtual void resize(std::size_t /*workers*/) noexcept {}
  /// The number of items put into the queues, except by enqueue_from_worker().
  virtual std::uint64_t enqueued() const noexcept = 0;
  virtual std::uint64_t wakeups() const noexcept = 0;
};

}  // namespace gyre::detail

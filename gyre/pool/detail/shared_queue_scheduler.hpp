// SPDX-License-Identifier: Apache-2.0
// shared_queue_scheduler: one queue for all workers, protected by a mutex or a spin lock.
#pragma once

#include <gyre/base/intrusive_queue.hpp>
#include <gyre/pool/detail/life_cycle.hpp>
#include <gyre/pool/detail/pool_task.hpp>
#include <gyre/pool/detail/pool_worker.hpp>
#include <gyre/pool/detail/priority_lanes.hpp>
#include <gyre/pool/detail/task_scheduler.hpp>
#include <gyre/pool/detail/worker_set.hpp>
#include <gyre/pool/pool_options.hpp>
#include <gyre/sync/detail/spin_lock.hpp>

#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <type_traits>
#include <utility>
#include <variant>

namespace gyre::detail {

/// A queue of tasks by priority and a queue of operations, from which workers take alternately.
/// With a std::mutex, idle workers sleep; with a spin_lock, they yield to other threads and try
/// again.
template <class Lock>
class shared_queue_scheduler final : public task_scheduler {
 public:
  /// Lifetime: all arguments must outlive this object.
  shared_queue_scheduler(const thread_pool_options& options, const life_cycle& state,
                         const worker_set& workers)
      : life_cycle_(state), workers_(workers), lanes_(options.aging) {}

  void enqueue(pool_task& task, task_priority priority) noexcept override {
    std::unique_lock lock(lock_);
    lanes_.push(task, priority);
    ++enqueued_items_;
    wake_one(std::move(lock));
  }
  void enqueue(operation& op) noexcept override {
    std::unique_lock lock(lock_);
    operations_.push_back(op);
    ++enqueued_items_;
    wake_one(std::move(lock));
  }
  void enqueue_from_worker(pool_worker&, pool_task& task) noexcept override {
    enqueue(task, task_priority::normal);
  }

  work_item next(pool_worker&) noexcept override { return take_leftover(); }
  void put_back(pool_worker&, work_item item) noexcept override {
    const std::lock_guard lock(lock_);
    if (item.is_task()) {
      lanes_.put_back(item.task());
    } else {
      operations_.push_front(item.op());
    }
  }
  pool_task* take_least_urgent() noexcept override {
    const std::lock_guard lock(lock_);
    return lanes_.take_least_urgent();
  }
  work_item take_leftover() noexcept override {
    const std::lock_guard lock(lock_);
    return take();
  }

  void wake_all() noexcept override {
    {
      const std::lock_guard lock(lock_);
    }  // a worker about to wait has now begun to wait, or sees the change
    if constexpr (sleeps) condition_.notify_all();
  }
  std::uint64_t enqueued() const noexcept override {
    const std::lock_guard lock(lock_);
    return enqueued_items_;
  }
  std::uint64_t wakeups() const noexcept override {
    const std::lock_guard lock(lock_);
    return wakeups_;
  }

  // worker_loop calls the three functions below.
  void begin_work(pool_worker&) noexcept {}
  void stop_searching(pool_worker&) noexcept {}
  void wait_for_work(pool_worker& self) noexcept {
    std::unique_lock lock(lock_);
    if (lanes_.size() > 0 || !operations_.empty()) return;
    if (life_cycle_.concerns_sleepers() || workers_.is_surplus(self)) return;
    ++idle_count_;
    if constexpr (sleeps) {
      self.parks.add(1);
      condition_.wait(lock);
    } else {
      lock.unlock();
      thread_yield();
      lock.lock();
    }
    --idle_count_;
  }

 private:
  static constexpr bool sleeps = std::same_as<Lock, std::mutex>;

  work_item take() noexcept {
    prefers_operation_ = !prefers_operation_;
    if (prefers_operation_) {
      if (operation* const op = operations_.pop_front()) return work_item(*op);
    }
    if (pool_task* const task = lanes_.take()) return work_item(*task);
    if (operation* const op = operations_.pop_front()) return work_item(*op);
    return {};
  }
  void wake_one(std::unique_lock<Lock> lock) noexcept {
    if (idle_count_ == 0) return;
    ++wakeups_;
    lock.unlock();
    if constexpr (sleeps) condition_.notify_one();
  }

  const life_cycle& life_cycle_;
  const worker_set& workers_;
  mutable Lock lock_;
  [[no_unique_address]] std::conditional_t<sleeps, std::condition_variable, std::monostate>
      condition_;
  priority_lanes lanes_;
  intrusive_queue<operation> operations_;
  bool prefers_operation_ = false;
  std::size_t idle_count_ = 0;
  std::uint64_t enqueued_items_ = 0;
  std::uint64_t wakeups_ = 0;
};

using blocking_scheduler = shared_queue_scheduler<std::mutex>;
using spinning_scheduler = shared_queue_scheduler<spin_lock>;

}  // namespace gyre::detail

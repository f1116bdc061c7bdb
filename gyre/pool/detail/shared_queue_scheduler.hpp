// SPDX-License-Identifier: Apache-2.0
// shared_queue_scheduler: one queue for all workers; the published experiment compares two kinds.
#pragma once

#include <gyre/base/intrusive_queue.hpp>
#include <gyre/pool/detail/pool_core.hpp>
#include <gyre/pool/detail/priority_lanes.hpp>
#include <gyre/sync/detail/spin_lock.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>

namespace gyre::detail {

/// Workers without work sleep on a condition variable.
class sleeping_idlers {
 public:
  using lock_type = std::mutex;
  static constexpr bool sleeps = true;

  void wait(std::unique_lock<lock_type>& lock) { changed_.wait(lock); }
  void wake_one() noexcept { changed_.notify_one(); }
  void wake_all() noexcept { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

/// Workers without work give way to other threads, and look again.
class yielding_idlers {
 public:
  using lock_type = spin_lock;
  static constexpr bool sleeps = false;

  static void wait(std::unique_lock<lock_type>& lock) noexcept {
    lock.unlock();
    thread_yield();
    lock.lock();
  }
  static void wake_one() noexcept {}
  static void wake_all() noexcept {}
};

/// Three lanes, each in the order of arrival. Every other turn, operations go before tasks.
template <class Idlers>
class shared_queue_scheduler final : public task_scheduler {
 public:
  explicit shared_queue_scheduler(pool_core& pool)
      : life_(pool.life()), workers_(pool.workers()), lanes_(pool.options().aging) {}

  void enqueue(pool_task& task, task_priority priority) noexcept override {
    std::unique_lock lock(lock_);
    lanes_.push(task, priority);
    ++enqueued_;
    wake_one(std::move(lock));
  }
  void enqueue(operation& op) noexcept override {
    std::unique_lock lock(lock_);
    operations_.push_back(op);
    ++enqueued_;
    wake_one(std::move(lock));
  }
  void enqueue_own(pool_worker&, pool_task& task) noexcept override {
    enqueue(task, task_priority::normal);
  }

  void run_worker(pool_worker& self) noexcept override { run_worker_loop(*this, life_, self); }
  work_item next(pool_worker&) noexcept override { return take_leftover(); }
  void put_back(pool_worker&, work_item item) noexcept override {
    const std::lock_guard lock(lock_);
    if (item.is_task()) {
      lanes_.put_back(item.task());
    } else {
      operations_.push_front(item.op());
    }
  }
  pool_task* take_least() noexcept override {
    const std::lock_guard lock(lock_);
    return lanes_.take_least();
  }
  work_item take_leftover() noexcept override {
    const std::lock_guard lock(lock_);
    return take();
  }

  void wake_all() noexcept override {
    {
      const std::lock_guard lock(lock_);
    }  // a worker that is about to wait has looked, or will
    idlers_.wake_all();
  }
  std::uint64_t enqueued() const noexcept override {
    const std::lock_guard lock(lock_);
    return enqueued_;
  }
  std::uint64_t wakeups() const noexcept override {
    const std::lock_guard lock(lock_);
    return wakeups_;
  }

  // For run_worker_loop().
  void stop_searching(pool_worker&) noexcept {}
  void wait_for_work(pool_worker& self) noexcept {
    std::unique_lock lock(lock_);
    if (lanes_.size() > 0 || !operations_.empty()) return;
    if (life_.concerns_sleepers() || workers_.is_surplus(self)) return;
    if constexpr (Idlers::sleeps) self.parks.add(1);
    ++idle_;
    idlers_.wait(lock);
    --idle_;
  }

 private:
  using lock_type = typename Idlers::lock_type;

  work_item take() noexcept {
    operation_next_ = !operation_next_;
    if (operation_next_) {
      if (operation* const op = operations_.pop_front()) return work_item(*op);
    }
    if (pool_task* const task = lanes_.take()) return work_item(*task);
    if (operation* const op = operations_.pop_front()) return work_item(*op);
    return {};
  }
  void wake_one(std::unique_lock<lock_type> lock) noexcept {
    if (idle_ == 0) return;
    ++wakeups_;
    lock.unlock();
    idlers_.wake_one();
  }

  const life_cycle& life_;
  const worker_set& workers_;
  mutable lock_type lock_;
  Idlers idlers_;
  priority_lanes lanes_;
  intrusive_queue<operation> operations_;
  bool operation_next_ = false;
  std::size_t idle_ = 0;
  std::uint64_t enqueued_ = 0;
  std::uint64_t wakeups_ = 0;
};

using blocking_scheduler = shared_queue_scheduler<sleeping_idlers>;
using spinning_scheduler = shared_queue_scheduler<yielding_idlers>;

}  // namespace gyre::detail

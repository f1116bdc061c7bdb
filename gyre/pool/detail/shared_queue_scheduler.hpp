// SPDX-License-Identifier: Apache-2.0
// The two schedulers with one queue for all: what most pools are, and what the published experiment
// compares.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>

#include <gyre/base/intrusive_queue.hpp>
#include <gyre/pool/detail/pool_core.hpp>
#include <gyre/pool/detail/priority_lanes.hpp>
#include <gyre/sync/detail/spin_lock.hpp>

namespace gyre::detail {

/// Workers without work sleep on a condition variable.
class sleeping_idlers {
 public:
  using lock_type = std::mutex;
  static constexpr bool sleep = true;

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
  static constexpr bool sleep = false;

  static void wait(std::unique_lock<lock_type>& lock) noexcept {
    lock.unlock();
    thread_yield();
    lock.lock();
  }
  static void wake_one() noexcept {}
  static void wake_all() noexcept {}
};

/// One queue of three lanes, in the order of arrival. Operations go before tasks at every other
/// turn.
template <class Idlers>
class shared_queue_pool final : public pool_core {
 public:
  explicit shared_queue_pool(thread_pool_options&& options);
  ~shared_queue_pool() override;

 private:
  friend pool_core;  // runs the worker's loop

  using lock_type = typename Idlers::lock_type;

  void enqueue(pool_task& task, task_priority priority) noexcept override;
  void enqueue(operation& op) noexcept override;
  void enqueue_own(pool_worker& self, pool_task& task) noexcept override;
  bool offer_own(pool_worker& self, operation& op) noexcept override;
  work_item next(pool_worker& self) noexcept override;
  void work(pool_worker& self) noexcept override;
  void return_taken(pool_worker& self, work_item item) noexcept override;
  pool_task* take_waiting() noexcept override;
  work_item take_left() noexcept override;
  void wake_all() noexcept override;
  std::uint64_t enqueued() const noexcept override;
  std::uint64_t wakeups() const noexcept override;

  void found(pool_worker&) noexcept {}
  void rest(pool_worker& self) noexcept;
  work_item take() noexcept;
  void wake_one(std::unique_lock<lock_type> lock) noexcept;

  mutable lock_type lock_;
  Idlers idlers_;
  priority_lanes lanes_;
  intrusive_queue<operation> operations_;
  bool operation_next_ = false;
  std::size_t resting_ = 0;
  std::uint64_t enqueued_ = 0;
  std::uint64_t wakeups_ = 0;
};

using blocking_pool = shared_queue_pool<sleeping_idlers>;
using spinning_pool = shared_queue_pool<yielding_idlers>;

extern template class shared_queue_pool<sleeping_idlers>;
extern template class shared_queue_pool<yielding_idlers>;

}  // namespace gyre::detail

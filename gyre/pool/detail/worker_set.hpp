// SPDX-License-Identifier: Apache-2.0
// worker_set: the workers of a pool and their threads, started, retired and joined.
#pragma once

#include <gyre/base/move_only_function.hpp>
#include <gyre/pool/detail/life_cycle.hpp>
#include <gyre/pool/detail/pool_worker.hpp>
#include <gyre/pool/pool_options.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace gyre::detail {

class task_scheduler;

/// Thread-safety: members with a worker are called by that worker, all others by any thread.
class worker_set {
 public:
  using thread_body = move_only_function<void()>;

  /// `body_of` makes what the thread of a worker calls; `pool` identifies the pool.
  worker_set(const void* pool, const thread_pool_options& options, life_cycle& life,
             move_only_function<thread_body(pool_worker&)> body_of);
  ~worker_set();

  /// How many workers are wanted.
  std::size_t target() const noexcept {
    return target_.load(std::memory_order_relaxed);  // relaxed: stands for itself
  }
  bool is_surplus(const pool_worker& worker) const noexcept { return worker.index >= target(); }
  /// How many workers have ever existed at once: the range of indices.
  std::size_t size() const noexcept {
    return size_.load(std::memory_order_acquire);  // pairs with the release in start()
  }
  pool_worker& operator[](std::size_t index) const noexcept { return *workers_[index]; }

  /// Starts or retires workers; joins those that retired earlier. Throws as thread_pool::resize().
  void resize(std::size_t workers, task_scheduler& scheduler);
  /// Ends a surplus worker; false if it is wanted again.
  bool retire(pool_worker& self) noexcept;
  /// Joins all threads, and detaches the calling one. A second caller waits for the first.
  void join() noexcept;

  /// As helper's members, of a worker that is out of stack and waits for a task of its pool: it is
  /// stuck until another worker runs that. If all are stuck, none will.
  bool may_sleep(pool_worker& self, const future_state_base& task) noexcept;
  void woke_up(pool_worker& self) noexcept;

 private:
  void start(std::size_t index);
  bool has_surplus() const noexcept;
  std::unique_ptr<named_thread> take_thread() noexcept;

  const void* const pool_;
  const thread_pool_options& options_;
  life_cycle& life_;
  move_only_function<thread_body(pool_worker&)> body_of_;
  std::atomic<std::size_t> target_{0};
  std::atomic<std::size_t> size_{0};
  const std::unique_ptr<std::unique_ptr<pool_worker>[]> workers_;
  std::mutex join_mutex_;
  std::mutex mutex_;                                    // starting, retiring and being stuck
  std::vector<std::unique_ptr<named_thread>> retired_;  // not joined yet; by the mutex
};

}  // namespace gyre::detail

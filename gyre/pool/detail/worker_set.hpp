// SPDX-License-Identifier: Apache-2.0
// worker_set: starts, retires and joins the workers of a pool and their threads.
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

/// Thread-safety: functions with a worker are called by that worker, all others by any thread.
class worker_set {
 public:
  using thread_body = move_only_function<void()>;

  /// `make_body` returns the function of a worker's thread; `pool` identifies the pool.
  worker_set(const void* pool, const thread_pool_options& options, life_cycle& state,
             move_only_function<thread_body(pool_worker&)> make_body);
  ~worker_set();

  /// The number of workers that the pool should have.
  std::size_t target() const noexcept {
    return target_.load(std::memory_order_relaxed);  // relaxed: the target guards no other data
  }
  bool is_surplus(const pool_worker& worker) const noexcept { return worker.index >= target(); }
  /// The number of workers ever created, which bounds the index.
  std::size_t size() const noexcept {
    return size_.load(std::memory_order_acquire);  // acquire: pairs with the release in start()
  }
  pool_worker& operator[](std::size_t index) const noexcept { return *workers_[index]; }

  /// Starts or retires workers, and joins the threads of workers that retired earlier. Throws what
  /// thread_pool::resize() throws.
  void resize(std::size_t workers, task_scheduler& scheduler);
  /// Ends a surplus worker. Returns false if a resize() has made it necessary again.
  bool retire(pool_worker& self) noexcept;
  /// Joins all threads, except that it detaches the calling one. A second caller waits for the
  /// first.
  void join() noexcept;

  /// Called before and after the sleep of a worker that waits for a task of its own pool and has no
  /// stack left to help. Such a worker is stuck until another worker runs `task`. begin_sleep()
  /// returns false if all workers are stuck, because then no worker can run it.
  bool begin_sleep(pool_worker& self, const future_state_base& task) noexcept;
  void on_wake_up(pool_worker& self) noexcept;

 private:
  void start(std::size_t index);
  bool has_surplus() const noexcept;
  std::unique_ptr<named_thread> take_thread() noexcept;

  const void* const pool_;
  const thread_pool_options& options_;
  life_cycle& life_cycle_;
  move_only_function<thread_body(pool_worker&)> make_body_;
  std::atomic<std::size_t> target_{0};
  std::atomic<std::size_t> size_{0};
  const std::unique_ptr<std::unique_ptr<pool_worker>[]> workers_;
  std::mutex join_mutex_;
  std::mutex mutex_;  // guards the workers' states
  // Threads that were not joined yet; mutex_ guards them.
  std::vector<std::unique_ptr<named_thread>> retired_threads_;
};

}  // namespace gyre::detail

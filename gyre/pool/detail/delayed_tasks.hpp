// SPDX-License-Identifier: Apache-2.0
// delayed_tasks: the tasks of a pool whose deadlines have not passed yet.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/pool/detail/pool_task.hpp>
#include <gyre/pool/detail/timer_thread.hpp>

#include <cstddef>
#include <mutex>

namespace gyre::detail {

/// The owner of delayed tasks, which runs or drops them.
class delayed_task_runner {
 public:
  /// Runs a task whose deadline has passed. Called on the thread on which its timer expires.
  virtual void run_due(pool_task& task) noexcept = 0;
  virtual void drop_delayed(pool_task& task) noexcept = 0;

 protected:
  ~delayed_task_runner() = default;
};

/// Stores tasks until their deadlines, with one timer each.
///
/// Thread-safety: all members may be called from any thread.
class delayed_tasks {
 public:
  delayed_tasks(delayed_task_runner& runner, timer_thread& timers) noexcept
      : runner_(runner), timers_(timers) {}

  /// Stores `task` until `deadline`. Returns false, without an effect, after drop_all(). Throws
  /// std::bad_alloc, and std::system_error (EAGAIN) if the timers' thread cannot be started.
  bool add(steady_time deadline, pool_task& task);
  /// Drops all stored tasks, and refuses further ones. Returns how many were dropped.
  std::size_t drop_all() noexcept;
  std::size_t size() const noexcept;

 private:
  struct entry : timer_operation, intrusive_list_node {
    entry(delayed_tasks& list, pool_task& stored_task) noexcept
        : timer_operation(&delayed_tasks::expire), owner(list), task(stored_task) {}

    delayed_tasks& owner;
    pool_task& task;
  };

  static void expire(timer_operation& timer);

  delayed_task_runner& runner_;
  timer_thread& timers_;
  mutable std::mutex mutex_;
  intrusive_list<entry> entries_;
  std::size_t size_ = 0;
  bool is_closed_ = false;  // whether drop_all() was called
};

}  // namespace gyre::detail

// SPDX-License-Identifier: Apache-2.0
// delayed_tasks: the tasks of a pool that are not yet due.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/pool/detail/pool_task.hpp>
#include <gyre/pool/detail/timer_thread.hpp>

#include <cstddef>
#include <mutex>

namespace gyre::detail {

class pool_core;

/// Thread-safety: all members may be called from any thread.
class delayed_tasks {
 public:
  /// The threads on which `timers` expire pass due tasks to pool.run_due().
  delayed_tasks(pool_core& pool, timer_thread& timers) noexcept : pool_(pool), timers_(timers) {}

  /// Keeps `task` until `when`. False, without an effect, after drop_all(). Throws
  /// std::bad_alloc, and std::system_error (EAGAIN) if there is no thread for the timers.
  bool add(steady_time when, pool_task& task);
  /// Drops all that are not yet due, and takes no more. Returns how many were dropped.
  std::size_t drop_all() noexcept;
  std::size_t size() const noexcept;

 private:
  struct entry : timer_operation, intrusive_list_node {
    entry(delayed_tasks& list, pool_task& delayed) noexcept
        : timer_operation(&delayed_tasks::expire), owner(list), task(delayed) {}

    delayed_tasks& owner;
    pool_task& task;
  };

  static void expire(timer_operation& timer);

  pool_core& pool_;
  timer_thread& timers_;
  mutable std::mutex mutex_;
  intrusive_list<entry> entries_;
  std::size_t size_ = 0;
  bool closed_ = false;
};

}  // namespace gyre::detail

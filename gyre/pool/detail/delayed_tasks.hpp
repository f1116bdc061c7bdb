// SPDX-License-Identifier: Apache-2.0
// The tasks of a pool whose time has not come.
#pragma once

#include <cstddef>
#include <mutex>

#include <gyre/base/clock.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/intrusive_queue.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/pool/detail/pool_task.hpp>
#include <gyre/pool/detail/timer_thread.hpp>

namespace gyre::detail {

class pool_core;

/// All members from any thread.
class delayed_tasks {
 public:
  /// Tasks that are due are run by `pool`, on a thread that `timers` expire on.
  delayed_tasks(pool_core& pool, timer_thread& timers) noexcept : pool_(pool), timers_(timers) {}
  delayed_tasks(const delayed_tasks&) = delete;
  delayed_tasks& operator=(const delayed_tasks&) = delete;

  /// Keeps `task` until `when`. False, and nothing was done, after drop_all(). Throws
  /// std::bad_alloc, and std::system_error (EAGAIN) if there is no thread for the timers.
  bool add(steady_time when, pool_task& task);
  /// Drops all whose time has not come, and takes no more. Returns how many they were.
  std::size_t drop_all() noexcept;
  std::size_t size() const noexcept;

 private:
  // A timer is in a list of its own already.
  struct link : intrusive_list_node {};
  struct entry : timer_operation, link, intrusive_node {
    entry(delayed_tasks& keeper, pool_task& kept) noexcept
        : timer_operation(&delayed_tasks::expire), all(keeper), task(kept) {}

    delayed_tasks& all;
    pool_task& task;
  };

  static void expire(timer_operation& timer);
  void forget(entry& gone) noexcept;

  pool_core& pool_;
  timer_thread& timers_;
  mutable std::mutex mutex_;
  intrusive_list<entry, link> entries_;
  std::size_t size_ = 0;
  bool closed_ = false;
};

}  // namespace gyre::detail

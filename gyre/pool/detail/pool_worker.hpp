// SPDX-License-Identifier: Apache-2.0
// pool_worker: the state of one worker of a pool: its thread, its deque and its counts.
#pragma once

#include <gyre/base/detail/named_thread.hpp>
#include <gyre/base/detail/relaxed_counter.hpp>
#include <gyre/base/detail/spin_budget.hpp>
#include <gyre/base/histogram.hpp>
#include <gyre/pool/detail/idle_workers.hpp>
#include <gyre/pool/detail/pool_task.hpp>
#include <gyre/pool/detail/theft_record.hpp>
#include <gyre/pool/detail/work_deque.hpp>
#include <gyre/task/executor.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace gyre::detail {

class future_state_base;

/// Lifetime: until the pool ends, even if the worker retires, as other threads look into its deque
/// and its counters.
class pool_worker final : public fork_queue {
 public:
  /// `owner` identifies the pool.
  pool_worker(const void* owner, std::size_t number) noexcept : pool(owner), index(number) {}
  virtual ~pool_worker() = default;

  /// Adds an item to the worker's own deque; false without memory. The item is counted first, as a
  /// thief may run it before the push returns.
  bool push_own(work_item item) noexcept {
    submitted.add(1);
    if (!deque.try_push(item)) [[unlikely]]
      return push_own_slowly(item);
    has_own_tasks = true;
    idle_peers->notify();
    return true;
  }
  bool push(operation& op) noexcept override { return push_own(work_item(op)); }
  bool take_back(operation& op) noexcept override {
    if (!deque.pop_if(work_item(op))) return false;
    submitted.subtract(1);
    if (deque.take_contention()) [[unlikely]]
      request_work();
    return true;
  }

  const void* const pool;
  const std::size_t index;
  idle_workers* idle_peers = nullptr;  // where thieves of this deque sleep; null if nobody steals

  // These belong to the worker's own thread, except that others steal and read the counters.
  work_deque<work_item> deque;
  gyre::detail::parker parker;
  spin_budget spin;
  theft_record thefts;
  bool has_own_tasks = false;            // since push_own(), until its deque is empty
  unsigned lookups = 0;                  // searches for the next item
  std::uintptr_t helping_stack_end = 0;  // the stack's address below which it does not help
  bool is_out_of_stack = false;          // at its last attempt to help
  const void* innermost_run = nullptr;   // the run of its items, as current_run() names it
  std::size_t depth = 0;                 // items that it runs, one within the other
  std::size_t waiting_depth = 0;         // the depth at its innermost quiescence::wait()
  std::size_t free_slots = 0;            // slots of started tasks that it has not released
  published_counter submitted, started, finished, steals, parks;
  std::optional<histogram> queue_wait, run_time;  // where tasks are timed

  // The mutex of the worker_set protects these.
  std::unique_ptr<named_thread> thread;
  bool is_alive = false;
  const future_state_base* stuck_wait = nullptr;  // the task that it waits for without stack

 private:
  bool push_own_slowly(work_item item) noexcept;
};

/// The worker that the calling thread is, or null. For functions that are not inlined into
/// coroutines, which may be on another thread after each suspension.
extern constinit thread_local pool_worker* this_worker;

}  // namespace gyre::detail

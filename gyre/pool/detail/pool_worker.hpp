// SPDX-License-Identifier: Apache-2.0
// pool_worker: the state of one worker of a pool: its thread, its deque and its counters.
#pragma once

#include <gyre/base/detail/adaptive_attempt.hpp>
#include <gyre/base/detail/named_thread.hpp>
#include <gyre/base/detail/relaxed_counter.hpp>
#include <gyre/base/detail/spin_budget.hpp>
#include <gyre/base/histogram.hpp>
#include <gyre/pool/detail/idle_workers.hpp>
#include <gyre/pool/detail/item_record.hpp>
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

/// Lifetime: until the pool ends, even if the worker retires, because other threads read its deque
/// and its counters.
class pool_worker final : public fork_queue {
 public:
  /// `owner` identifies the pool.
  pool_worker(const void* owner, std::size_t number) noexcept : pool(owner), index(number) {}
  ~pool_worker() = default;

  /// Pushes an item to the worker's own deque; returns false if memory is exhausted. The item is
  /// counted first, because a thief may run it before the push returns.
  bool push_to_own_deque(work_item item) noexcept {
    submitted.add(1);
    if (!deque.try_push(item)) [[unlikely]]
      return push_to_own_deque_slowly(item);
    has_own_tasks = true;
    idle_peers->notify();
    return true;
  }
  bool push(operation& op) noexcept override { return push_to_own_deque(work_item(op)); }
  bool take_back(operation& op) noexcept override {
    if (!deque.pop_if(work_item(op))) return false;
    submitted.subtract(1);
    if (deque.take_contention()) [[unlikely]]
      request_work();
    return true;
  }

  const void* const pool;
  const std::size_t index;
  idle_workers* idle_peers = nullptr;  // the sleepers among its thieves; null if no worker steals

  // The members below are used by the worker's own thread only, except that other workers steal
  // from the deque and other threads read the counters.
  work_deque<work_item> deque;
  gyre::detail::parker parker;
  spin_budget spin;
  adaptive_attempt yields{1, 1};  // whether a search yields between its polls
  theft_record thefts;
  bool has_own_tasks = false;            // whether its deque may have own items
  unsigned lookups = 0;                  // the number of searches for the next item
  std::uintptr_t helping_stack_end = 0;  // the address below which the stack is too short to help
  bool is_out_of_stack = false;          // whether it last failed to help for lack of stack
  const void* innermost_run = nullptr;   // current_run() within the worker's items
  std::size_t depth = 0;                 // the number of nested items that the worker runs
  std::size_t waiting_depth = 0;         // the depth at its innermost quiescence::wait()
  item_record record;                    // the record of its items in the flight recorder
  std::size_t free_slots = 0;            // the slots of started tasks that were not yet released
  published_counter submitted, started, finished, steals, parks;
  std::optional<histogram> queue_wait, run_time;  // empty unless tasks are timed

  // The members below are protected by the mutex of the worker_set.
  std::unique_ptr<named_thread> thread;
  bool is_alive = false;
  const future_state_base* stuck_wait = nullptr;  // the wait that lacks stack to help; or null

 private:
  bool push_to_own_deque_slowly(work_item item) noexcept;
};

/// The worker of the calling thread, or null. Functions that use it must not be inlined into
/// coroutines, which may be on another thread after each suspension.
extern constinit thread_local pool_worker* this_worker;

}  // namespace gyre::detail

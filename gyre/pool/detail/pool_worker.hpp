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

/// Lifetime: as the pool's, also if the worker retires: others look into its deque and its counts.
class pool_worker final : public fork_queue {
 public:
  /// `owner` identifies the pool.
  pool_worker(const void* owner, std::size_t number) noexcept : pool(owner), index(number) {}
  virtual ~pool_worker() = default;

  // Forks: the item is counted first, as a thief may run it before the push returns.
  bool push_own(work_item item) noexcept {
    submitted.add(1);
    if (!deque.push_if_room(item)) [[unlikely]]
      return push_own_slowly(item);
    feeds_itself = true;
    thieves->notify();
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
  idle_workers* thieves = nullptr;  // the workers that steal from this one, if they do

  // These belong to the worker's own thread, but for thieves and readers of counts.
  work_deque<work_item> deque;
  gyre::detail::parker parker;
  spin_budget spin;
  theft_record thefts;
  bool feeds_itself = false;         // its deque was not empty since it submitted to it
  unsigned turn = 0;                 // items looked for
  std::uintptr_t stack_reserve = 0;  // the stack's address below which it does not help
  bool out_of_stack = false;         // at its last attempt to help
  const void* run_here = nullptr;    // in which it runs items, as current_run()
  std::size_t depth = 0;             // items being run, one within the other
  std::size_t depth_that_waits = 0;  // of these: wait until all others have ended
  std::size_t free_slots = 0;        // of tasks that have started, not yet released
  published_counter submitted, started, finished, steals, parks;
  std::optional<histogram> queue_wait, run_time;  // where tasks are timed

  // The mutex of the worker_set protects these.
  std::unique_ptr<named_thread> thread;
  bool alive = false;
  const future_state_base* stuck_on = nullptr;  // the task it waits for, out of stack

 private:
  bool push_own_slowly(work_item item) noexcept;
};

/// The worker that the calling thread is, or null. For functions that are not inlined into
/// coroutines, which may be on another thread after each suspension.
extern constinit thread_local pool_worker* this_worker;

}  // namespace gyre::detail

// SPDX-License-Identifier: Apache-2.0
// What belongs to one worker of a pool.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include <gyre/base/detail/named_thread.hpp>
#include <gyre/base/detail/spin_budget.hpp>
#include <gyre/base/detail/tally.hpp>
#include <gyre/base/histogram.hpp>
#include <gyre/pool/detail/helper.hpp>
#include <gyre/pool/detail/idle_workers.hpp>
#include <gyre/pool/detail/pool_task.hpp>
#include <gyre/pool/detail/work_deque.hpp>

namespace gyre::detail {

class pool_core;

/// Items on their way from a queue of submissions to a worker.
class taken_items {
 public:
  static constexpr std::size_t most = 256;

  explicit taken_items(pool_core& pool) noexcept : pool_(pool) {}
  taken_items(const taken_items&) = delete;
  taken_items& operator=(const taken_items&) = delete;

  void add(work_item item) noexcept { items_[count_++] = item; }
  std::size_t count() const noexcept { return count_; }
  work_item operator[](std::size_t index) const noexcept { return items_[index]; }
  pool_core& pool() const noexcept { return pool_; }

 private:
  pool_core& pool_;
  std::size_t count_ = 0;
  union {  // not set before it is used
    std::array<work_item, most> items_;
  };
};

/// Made once for each place in a pool, and kept to its end: others look into its deque and its
/// counts.
class pool_worker final : public helper {
 public:
  pool_worker(pool_core& pool, std::size_t place) noexcept : core(pool), index(place) {}
  pool_worker(const pool_worker&) = delete;
  pool_worker& operator=(const pool_worker&) = delete;

  bool help_once() noexcept override;
  bool may_sleep(const outcome_base& task) noexcept override;
  void woke_up() noexcept override;

  pool_core& core;
  const std::size_t index;

  // Its own thread's, but for thieves and readers of counts.
  work_deque<work_item> deque;
  parker bed;
  spin_budget spin;
  bool feeds_itself = false;         // its deque was not empty since it submitted to it
  unsigned turn = 0;                 // items looked for
  std::size_t depth_that_waits = 0;  // of those, how many wait until all others are done
  std::uintptr_t stack_reserve = 0;  // the stack's address below which it does not help
  bool out_of_stack = false;         // when it was last asked to
  std::size_t depth = 0;             // items being run, one within the other
  std::size_t submitter_depth = 0;   // tasks run by their submitter, one within the other
  std::size_t free_places = 0;       // of tasks that have started, not yet given back
  tally submitted, started, finished, steals, parks;
  std::optional<histogram> queue_wait, run_time;  // where tasks are timed

  // By the pool's mutex.
  std::unique_ptr<named_thread> thread;
  bool alive = false;
  const outcome_base* stuck_on = nullptr;  // what it waits for, out of stack
};

/// The worker that the calling thread is, or null. Not inlined: a coroutine may be on another
/// thread after each suspension.
pool_worker* current_pool_worker() noexcept;

}  // namespace gyre::detail

// SPDX-License-Identifier: Apache-2.0
// run_claim: the right to run a loop, which one thread has at a time.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/task/detail/nested_run.hpp>

#include <stdexcept>

namespace gyre::detail {

/// Holds the right to run a loop, and marks the calling thread's run of the loop. `holder`, a
/// member of the loop, is the innermost run of the thread that has the right; null if no thread has
/// it. That thread may claim the right again: sync_wait() holds the right for all turns, and while
/// its coroutine starts, before the first turn.
///
/// Thread-safety: belongs to its thread. Scopes are nested.
/// Errors: throws std::logic_error with `message` if another thread has the right.
/// Complexity: one locked instruction, none if the thread has the right already.
class run_claim {
 public:
  run_claim(atomic<const nested_run*>& holder, const char* message)
      // relaxed: the exchange below acquires; if the run is of this thread, no order is needed.
      : holder_(holder), outer_(holder.load(std::memory_order_relaxed)) {
    if (outer_ != nullptr && is_run_of_this_thread(outer_)) {
      holder_.store(&run_, std::memory_order_relaxed);  // relaxed: other threads only compare it
      return;
    }
    outer_ = nullptr;
    // acquire: pairs with the release in the destructor, so that one thread after the other may run
    // a loop.
    if (!holder_.compare_exchange_strong(outer_, &run_, std::memory_order_acquire,
                                         std::memory_order_relaxed)) {
      throw std::logic_error(message);
    }
  }
  run_claim& operator=(run_claim&&) = delete;
  ~run_claim() {
    // release: pairs with the acquire in the constructor, by the thread that runs the loop next,
    // which sees all writes of this run.
    holder_.store(outer_, std::memory_order_release);
  }

 private:
  atomic<const nested_run*>& holder_;
  const nested_run* outer_;
  nested_run run_;
};

}  // namespace gyre::detail

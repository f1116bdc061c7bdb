// SPDX-License-Identifier: Apache-2.0
// inbox::mutex: a vector protected by a mutex, which the consumer swaps for an empty one.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/exec/inbox/inbox.hpp>

#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

namespace gyre::inbox {

/// Two `std::vector`s that keep their capacity, one of them protected by a `std::mutex`.
///
/// Order: total.
/// Complexity: a push takes a lock, and may sleep.
///
/// Most event loops have such a queue; this one serves for comparison. A debugger shows every task
/// in it.
class mutex {
 public:
  static constexpr ordering order = ordering::total;

  mutex() = default;
  mutex& operator=(mutex&&) = delete;
  ~mutex() {
    // Tasks are destroyed one by one, while the inbox still works, because their destructors may
    // post.
    while (next_ < running_.size() || refill()) const task dropped = std::move(running_[next_++]);
  }

  template <class F>
  void push(F&& callable) {
    task stored(std::forward<F>(callable));
    const std::lock_guard lock(mutex_);
    arriving_.push_back(std::move(stored));
    // relaxed: a hint; a fence of sleep_gate orders the last check before the loop sleeps.
    has_tasks_.store(true, std::memory_order_relaxed);
  }

  void run(batch& tasks) {
    while (tasks.more()) {
      if (next_ == running_.size() && !refill()) return;
      task each = std::move(running_[next_++]);
      tasks.count(1);
      consumed_.store(consumed_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      each();
    }
  }

  bool ready() noexcept {
    return next_ < running_.size() || has_tasks_.load(std::memory_order_relaxed);
  }

  std::size_t pending() const noexcept {
    const std::lock_guard lock(mutex_);
    return arriving_.size() + drained_ - consumed_.load(std::memory_order_relaxed);
  }

 private:
  using task = move_only_function<void()>;

  bool refill() {
    running_.clear();
    next_ = 0;
    if (!has_tasks_.load(std::memory_order_relaxed)) return false;
    const std::lock_guard lock(mutex_);
    running_.swap(arriving_);
    has_tasks_.store(false, std::memory_order_relaxed);
    drained_ += running_.size();
    return true;
  }

  std::vector<task> running_;
  std::size_t next_ = 0;
  gyre::detail::atomic<std::size_t> consumed_{0};
  mutable std::mutex mutex_;
  std::vector<task> arriving_;
  std::size_t drained_ = 0;
  gyre::detail::atomic<bool> has_tasks_{false};
};

static_assert(policy<mutex>);

}  // namespace gyre::inbox

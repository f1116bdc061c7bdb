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
    while (next_index_ < running_tasks_.size() || refill())
      const task discarded_task = std::move(running_tasks_[next_index_++]);
  }

  template <class F>
  void push(F&& callable) {
    task new_task(std::forward<F>(callable));
    const std::lock_guard lock(mutex_);
    new_tasks_.push_back(std::move(new_task));
    // relaxed: a hint; a fence of sleep_gate orders the last check before the loop sleeps.
    has_tasks_.store(true, std::memory_order_relaxed);
  }

  void run(batch& tasks) {
    while (tasks.more()) {
      if (next_index_ == running_tasks_.size() && !refill()) return;
      task front = std::move(running_tasks_[next_index_++]);
      tasks.count(1);
      consumed_count_.store(consumed_count_.load(std::memory_order_relaxed) + 1,
                            std::memory_order_relaxed);
      front();
    }
  }

  bool ready() noexcept {
    return next_index_ < running_tasks_.size() || has_tasks_.load(std::memory_order_relaxed);
  }

  std::size_t pending() const noexcept {
    const std::lock_guard lock(mutex_);
    return new_tasks_.size() + drained_count_ - consumed_count_.load(std::memory_order_relaxed);
  }

 private:
  using task = move_only_function<void()>;

  bool refill() {
    running_tasks_.clear();
    next_index_ = 0;
    if (!has_tasks_.load(std::memory_order_relaxed)) return false;
    const std::lock_guard lock(mutex_);
    running_tasks_.swap(new_tasks_);
    has_tasks_.store(false, std::memory_order_relaxed);
    drained_count_ += running_tasks_.size();
    return true;
  }

  std::vector<task> running_tasks_;
  std::size_t next_index_ = 0;
  gyre::detail::atomic<std::size_t> consumed_count_{0};
  mutable std::mutex mutex_;
  std::vector<task> new_tasks_;
  std::size_t drained_count_ = 0;
  gyre::detail::atomic<bool> has_tasks_{false};
};

static_assert(policy<mutex>);

}  // namespace gyre::inbox

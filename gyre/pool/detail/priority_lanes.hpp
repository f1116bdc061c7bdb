// SPDX-License-Identifier: Apache-2.0
// priority_lanes: a queue of tasks ordered by priority, and by arrival within each priority.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/intrusive_queue.hpp>
#include <gyre/pool/detail/pool_task.hpp>
#include <gyre/pool/pool_options.hpp>

#include <array>
#include <chrono>
#include <cstddef>

namespace gyre::detail {

/// A queue for each priority, with rules that keep tasks of lower priority from starving.
///
/// Thread-safety: none.
class priority_lanes {
 public:
  /// After this many tasks in a row, one task of normal priority is preferred, so that high
  /// priority does not starve it.
  static constexpr unsigned normal_turn = 61;

  explicit priority_lanes(std::chrono::nanoseconds aging_interval) noexcept
      : aging_(aging_interval) {}

  void push(pool_task& task, task_priority priority) noexcept {
    task.priority = priority;
    if (priority == task_priority::low) task.queue_time = monotonic_now();
    lane(priority).push_back(task);
    ++count_[index(priority)];
  }
  /// Puts back a task that was taken, before all others of its priority.
  void put_back(pool_task& task) noexcept {
    lane(task.priority).push_front(task);
    ++count_[index(task.priority)];
  }

  /// Returns the next task, or null. Reads the clock only while a task of low priority is queued.
  pool_task* take() noexcept {
    if (pool_task* task = take_overdue()) return task;
    if (++turn_ % normal_turn != 0) {
      if (pool_task* high = take(task_priority::high)) return high;
    }
    if (pool_task* task = take(task_priority::normal)) return task;
    if (pool_task* high = take(task_priority::high)) return high;
    return take(task_priority::low);
  }
  pool_task* take(task_priority priority) noexcept {
    pool_task* const first = lane(priority).pop_front();
    if (first != nullptr) --count_[index(priority)];
    return first;
  }
  /// Returns a task of low priority that has been queued for `aging`, or null.
  pool_task* take_overdue() noexcept {
    const pool_task* const oldest = lane(task_priority::low).front();
    if (oldest == nullptr || monotonic_now() - oldest->queue_time < aging_) return nullptr;
    return take(task_priority::low);
  }
  /// Returns the oldest task of the lowest priority, which when_full::drop_oldest drops; or null.
  pool_task* take_least_urgent() noexcept {
    if (pool_task* task = take(task_priority::low)) return task;
    if (pool_task* task = take(task_priority::normal)) return task;
    return take(task_priority::high);
  }

  std::size_t size(task_priority priority) const noexcept { return count_[index(priority)]; }
  std::size_t size() const noexcept { return count_[0] + count_[1] + count_[2]; }

 private:
  static constexpr std::size_t index(task_priority priority) noexcept {
    return static_cast<std::size_t>(priority);
  }
  intrusive_queue<pool_task>& lane(task_priority priority) noexcept {
    return lanes_[index(priority)];
  }

  const std::chrono::nanoseconds aging_;
  std::array<intrusive_queue<pool_task>, 3> lanes_;
  std::array<std::size_t, 3> count_{};
  unsigned turn_ = 0;
};

}  // namespace gyre::detail

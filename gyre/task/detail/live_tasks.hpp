// SPDX-License-Identifier: Apache-2.0
// live_tasks: the tasks of a sync_wait() in a deadlock, to be reported and destroyed.
#pragma once

#include <gyre/task/context.hpp>
#include <gyre/task/detail/blocking_executor.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace gyre::detail {

#if GYRE_ASYNC_BACKTRACE

/// A snapshot of a task and the tree of its concurrent children. For a program with one thread, in
/// which no other member of the tree runs.
class live_tasks {
 public:
  /// O(tasks). Throws std::bad_alloc.
  explicit live_tasks(task_context& root);

  std::size_t size() const noexcept { return tasks_.size(); }

  /// The async_backtrace of each task, below the task that waits for it. Limited to the first
  /// tasks, and to the ends of a long chain.
  std::string to_string() const;

  /// Destroys tasks without children whose executor is `where`, with an empty queue, as if they
  /// were cancelled. Returns when that has woken a coroutine, as the tree is then out of date.
  /// False if there was no such task.
  bool cancel_leaves(const blocking_executor& where) const;
  /// Makes executors skip operations of the tasks, which must not be destroyed. Throws
  /// std::bad_alloc.
  void never_resume() const;

 private:
  struct live_task {
    task_context* context;
    std::size_t depth;  // of parents above it
  };
  static void append(std::string& text, const live_task& task);
  bool is_leaf(std::size_t index) const noexcept {
    return index + 1 == tasks_.size() || tasks_[index + 1].depth <= tasks_[index].depth;
  }

  std::vector<live_task> tasks_;  // each behind its parent
};

#endif

}  // namespace gyre::detail

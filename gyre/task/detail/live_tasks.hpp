// SPDX-License-Identifier: Apache-2.0
// live_tasks: the tasks that a sync_wait() waits for when nothing can wake them any more, to be
// reported and given up.
#pragma once

#include <gyre/task/context.hpp>
#include <gyre/task/detail/blocking_executor.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace gyre::detail {

#if GYRE_ASYNC_BACKTRACE

/// A task and those that run beside each other for it, with theirs, as they are when this is made.
/// For a program that has one thread left, in which no other member of the tree runs.
class live_tasks {
 public:
  /// O(tasks). Throws std::bad_alloc.
  explicit live_tasks(task_context& root);

  std::size_t size() const noexcept { return tasks_.size(); }

  /// For each task the awaits in which it is suspended, as async_backtrace::to_string() has them,
  /// below the task that waits for it. Of very many only the first, of a very long chain the ends.
  std::string to_string() const;

  /// Destroys tasks that wait for no others and go on on `where`, whose queue is empty; it is as if
  /// they had been cancelled. Stops as soon as that has woken a coroutine: the tree is then out of
  /// date. False if there was no such task.
  bool cancel_leaves(const blocking_executor& where) const;
  /// Keeps the tasks from ever running again, for executors that hold operations of theirs. They
  /// must not be destroyed either. Throws std::bad_alloc.
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

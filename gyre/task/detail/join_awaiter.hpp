// SPDX-License-Identifier: Apache-2.0
// join_awaiter: the awaiter that owns the tasks of a join, and constructs and runs the join.
#pragma once

#include <gyre/task/detail/build_options.hpp>
#include <gyre/task/detail/child_set.hpp>
#include <gyre/task/detail/fork_join.hpp>
#include <gyre/task/detail/join_tasks.hpp>
#include <gyre/task/detail/task_state.hpp>
#include <gyre/task/detail/tasks_join.hpp>

#include <coroutine>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace gyre::detail {

/// An awaiter that runs `Tasks`: a vector, an array or a tuple of tasks, or made_tasks. Base of
/// awaiters that return the results.
template <class Tasks, fork_join::on_error Policy>
class join_awaiter {
 public:
  template <class... Sources>
  explicit join_awaiter(Sources&&... tasks) : tasks_(std::forward<Sources>(tasks)...) {}
  /// Requires that `other` was not awaited.
  join_awaiter(join_awaiter&& other) noexcept : tasks_(std::move(other.tasks_)) {}
  join_awaiter& operator=(join_awaiter&&) = delete;

  static constexpr bool executor_affine = true;
  bool await_ready() const noexcept { return count_of(tasks_) == 0; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> parent) {
    return !start(parent, forking_coroutine(parent));
  }

 protected:
  ~join_awaiter() {
    // The children's coroutines refer to the join, so end_join() destroys them before the join.
    if (progress_ == progress::begun) [[unlikely]]
      end_join();
  }

  /// Ends the join without its destructor, in await_resume(), if no child has waited, failed or
  /// been taken by another thread. Returns true in that case, and if there was no task.
  bool end_undisturbed() noexcept {
    if (progress_ != progress::begun) return true;
    if (join_.was_disturbed() || join_.has_link() || records_backtraces) [[unlikely]]
      return false;
    progress_ = progress::ended;
    return true;
  }
  tasks_join<Tasks>& join() noexcept { return join_; }

 private:
  enum class progress : unsigned char { not_awaited, begun, ended };

  // The function is not inlined into a coroutine, because a compiler would cache the address of the
  // thread-local variable starts_here over a suspension.
  [[gnu::noinline]] bool start(std::coroutine_handle<> parent, forking_coroutine caller) {
    if (progress_ != progress::not_awaited) [[unlikely]]
      throw_empty_task();
    progress_ = progress::begun;
    ::new (&join_) tasks_join<Tasks>(parent, caller, Policy, tasks_);
    return join_.run_all();
  }

  [[gnu::noinline]] void end_join() noexcept {
    if constexpr (makes_tasks<Tasks>) {
      join_.for_each_kept_child([](auto& work, auto&) { work = {}; });
    } else {
      for (std::size_t i = 0; i < count_of(tasks_); ++i) {
        visit_task(tasks_, i, [](auto& work) { work = {}; });
      }
    }
    std::destroy_at(&join_);
  }

 protected:
  Tasks tasks_;

 private:
  progress progress_ = progress::not_awaited;
  union {
    tasks_join<Tasks> join_;  // constructed in await_suspend()
  };
};

}  // namespace gyre::detail

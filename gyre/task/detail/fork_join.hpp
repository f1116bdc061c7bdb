// SPDX-License-Identifier: Apache-2.0
// Running several tasks beside each other, and waiting for all of them.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>

namespace gyre::detail {

/// The address of something of the calling thread's own: tells threads apart. Not inlined, since a
/// coroutine may be on another thread after each suspension.
const void* this_thread_mark() noexcept;

/// The point where the children of one coroutine come together again. A local of that coroutine,
/// declared before the tasks, whose contexts it holds.
///
/// Children that finish before start() returns, as most do that need not wait, cost no atomic
/// operation and share one context. The others get one each, from the slab, and count down.
class fork_join {
 public:
  enum class on_error { go_on, stop_others };

  explicit fork_join(on_error policy) noexcept : policy_(policy) {}
  fork_join(const fork_join&) = delete;
  fork_join& operator=(const fork_join&) = delete;
  ~fork_join();

  /// For the parent's await_suspend(): before the first child.
  template <class Promise>
  void begin(std::coroutine_handle<Promise> parent, std::size_t children) {
    fork_context(inherited_, parent);
    inherited_.finished = &child_finished;
    if (policy_ == on_error::stop_others) {
      inherited_.stop = stop_.emplace(inherited_.stop).get_token();
    }
    resumption_.waiting = parent;
    thread_ = this_thread_mark();
    // relaxed: nobody else knows it before a child starts.
    pending_.store(children + 1, std::memory_order_relaxed);
  }
  /// Starts one child, on this thread.
  template <class T>
  void start(task_state<T>& task) {
    child& context = next_child();
    context.end = &task;
    starting_ = &context;
    task.start(context);
    if (starting_ == nullptr) {
      ++finished_here_;
      if (task.failed()) child_failed(task);
    } else {
      keep_running();
    }
  }
  /// Instead of children that could not be started.
  void give_up(std::size_t children) noexcept {
    finished_here_ += children;
    child_failed_to_start();
  }
  /// After the last child: whether the parent has to wait.
  bool must_wait() noexcept {
    starting_ = nullptr;
    const std::size_t here = finished_here_ + 1;
    // acquire: pairs with the release in child_finished(): the parent sees the results. release: a
    // child that resumes the parent has it see what was written here.
    return pending_.fetch_sub(here, std::memory_order_acq_rel) != here;
  }

  /// Whose error came first; null if there was none. After all have finished.
  const task_end* failed() const noexcept {
    return failed_.load(std::memory_order_relaxed);  // relaxed: the count has ordered it
  }
  /// Throws if a child could not be started.
  void check_started() const {
    if (start_error_) std::rethrow_exception(start_error_);
  }

 private:
  struct child : task_context {
    fork_join* join;
    const task_end* end;
    child* next;
  };

  child& next_child();
  void keep_running() noexcept;
  void child_failed(const task_end& end) noexcept;
  void child_failed_to_start() noexcept;
  static std::coroutine_handle<> child_finished(task_context& context) noexcept;

  const on_error policy_;
  task_context inherited_;
  std::optional<linked_stop_source> stop_;
  resumption resumption_;
  std::exception_ptr start_error_;

  // The parent's thread, while it starts children.
  const void* thread_ = nullptr;
  child* starting_ = nullptr;  // null when the child finished before its start() returned
  child* spare_ = nullptr;     // a context that no child uses
  child* running_ = nullptr;   // contexts of children that went on by themselves
  std::size_t finished_here_ = 0;

  atomic<std::size_t> pending_{0};
  atomic<const task_end*> failed_{nullptr};
};

/// Awaited: runs all tasks that `Tasks`, a function that calls its argument with each task's state,
/// gives.
template <class Tasks>
class join_awaiter {
 public:
  join_awaiter(fork_join& join, std::size_t count, Tasks& tasks) noexcept
      : join_(join), count_(count), tasks_(tasks) {}

  bool await_ready() const noexcept { return count_ == 0; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> parent) {
    join_.begin(parent, count_);
    std::size_t left = count_;
    tasks_([&](auto& task) {
      if (left == 0) return;
      try {
        join_.start(task);
        --left;
      } catch (...) {
        join_.give_up(left);
        left = 0;
      }
    });
    return join_.must_wait();
  }
  void await_resume() const { join_.check_started(); }

 private:
  fork_join& join_;
  std::size_t count_;
  Tasks& tasks_;
};

}  // namespace gyre::detail

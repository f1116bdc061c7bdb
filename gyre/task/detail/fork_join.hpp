// SPDX-License-Identifier: Apache-2.0
// Running several tasks beside each other, and waiting for all of them.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/child_set.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/detail/transfer.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <vector>

namespace gyre::detail {

/// The point where the children of one coroutine come together again. A local of that coroutine,
/// declared before the tasks, whose contexts it holds.
///
/// Children are started one after the other, each by the thread that has the rest of the loop. An
/// executor that forks is offered that rest while a child runs; so another thread may go on with
/// the loop, which then is no longer the business of the thread that started the child
/// (Blumofe and Leiserson, "Scheduling multithreaded computations by work stealing", 1999).
///
/// Children that finish before start() returns, as most do that need not wait, cost no atomic
/// operation and share one context. The others keep theirs, and count down.
class fork_join final : public child_set {
 public:
  enum class on_error { go_on, stop_others };
  class starter;

  explicit fork_join(on_error policy) noexcept : policy_(policy) {}
  fork_join(const fork_join&) = delete;
  fork_join& operator=(const fork_join&) = delete;
  ~fork_join();

  /// For the parent's await_suspend(): before the first starter.
  template <class Promise>
  void begin(std::coroutine_handle<Promise> parent, std::size_t children) {
    fork_context(inherited_, parent);
    parent_context_ = &context_of(parent);
    attach(parent);
    if (policy_ == on_error::stop_others) stop_.emplace(inherited_.stop);
    resumption_.waiting = parent;
    // relaxed: nobody else knows it before a child starts.
    pending_.store(all_settled(children), std::memory_order_relaxed);
  }
  /// The coroutine that waits. When all have finished.
  std::coroutine_handle<> parent() const noexcept { return resumption_.waiting; }

  /// That coroutine's context. Once it has begun.
  const task_context& parent_context() const noexcept { return *parent_context_; }

  /// The first child that failed, or null. After all have finished.
  const task_end* failed() const noexcept {
    return failed_.load(std::memory_order_relaxed);  // relaxed: the count has ordered it
  }
#if GYRE_ASYNC_BACKTRACE
  void append_children(std::vector<task_context*>& to) override;
#endif
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

  // Counts three events: that a child has finished, that its starter is done with it, and that the
  // loop has come to its end.
  static constexpr std::size_t all_settled(std::size_t children) noexcept {
    return 2 * children + 1;
  }

  task_context inherited() const noexcept;
  void keep(child& newest, child& oldest) noexcept;
  void child_failed(const task_end& end) noexcept;
  void child_failed_to_start() noexcept;
  static std::coroutine_handle<> child_finished(task_context& context) noexcept;

  const on_error policy_;
  task_context inherited_;  // the parent's
  const task_context* parent_context_ = nullptr;
  std::optional<linked_stop_source> stop_;
  resumption resumption_;
  std::exception_ptr start_error_;  // set by who has the loop, which then ends
  union {
    child first_;  // the context of the first child and, if that need not wait, of those after it
  };

  atomic<std::size_t> pending_{0};
  atomic<const task_end*> failed_{nullptr};
  atomic<child*> kept_{nullptr};  // contexts of children that went on by themselves
};

/// One thread's share of the loop that starts the children. To be settled in the end.
class fork_join::starter {
 public:
  /// Begins the loop, or goes on with it.
  static starter first_of(fork_join& join) noexcept { return starter(join, &join.first_); }
  static starter next_of(fork_join& join) noexcept { return starter(join, nullptr); }
  starter(const starter&) = delete;
  starter& operator=(const starter&) = delete;

  /// Starts a child on this thread, while the loop's rest, if there is one, is on offer. Returns
  /// whether this thread goes on with that.
  template <class T>
  bool start(task_state<T>& task, operation* rest) {
    child& context = prepare(task);
    const bool forked = rest != nullptr && offer(*rest);
    run(context, task);
    if (forked) has_loop_ = join_.inherited_.where->retract(*rest);
    return has_loop_;
  }
  /// In a handler, instead of the last children, which were not started: the loop has ended.
  void give_up(std::size_t children) noexcept;

  /// Whether all have finished and this thread was the last to find it out; who is not must not use
  /// the join again. After that of the last children, or when another thread has the loop.
  bool settle(std::size_t children) noexcept;

 private:
  starter(fork_join& join, child* spare) noexcept : join_(join), spare_(spare) {}

  child& prepare(const task_end& end);
  bool offer(operation& rest) noexcept;
  template <class T>
  void run(child& context, task_state<T>& task) {
    const auto [outer, is_deep] = enter(context);
    if (is_deep) [[unlikely]] {
      task.start_child(context);
    } else {
      task.start(context);
    }
    if (leave(outer)) {
      ++settled_;
      if (task.failed()) join_.child_failed(task);
    } else {
      keep();
    }
    ++settled_;
  }
  struct entered {
    const task_context* outer;
    bool is_deep;  // within too many other starts to go on like that
  };
  static entered enter(const task_context& context) noexcept;
  static bool leave(const task_context* outer) noexcept;
  void keep() noexcept;

  fork_join& join_;
  child* spare_;             // a context that no child uses
  child* newest_ = nullptr;  // contexts of children that went on by themselves
  child* oldest_ = nullptr;
  std::size_t settled_ = 0;
  bool has_loop_ = true;
  bool forks_ = true;  // as far as is known
};

/// Awaited: runs all tasks that `Tasks` gives: a function that is called with the number of a task
/// and a function, and calls that with each task's state from that number on, until it returns
/// false.
template <class Tasks>
class join_awaiter : operation {
 public:
  join_awaiter(fork_join& join, std::size_t count, Tasks& tasks) noexcept
      : operation(&go_on), join_(join), count_(count), tasks_(tasks) {}
  join_awaiter(const join_awaiter&) = delete;
  join_awaiter& operator=(const join_awaiter&) = delete;

  static constexpr bool executor_affine = true;
  bool await_ready() const noexcept { return count_ == 0; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> parent) {
    join_.begin(parent, count_);
    return !start_from_next(fork_join::starter::first_of(join_));
  }
  void await_resume() const { join_.check_started(); }

 private:
  // The loop's rest, on the thread that has it now.
  static void go_on(operation& self) {
    auto& rest = static_cast<join_awaiter&>(self);
    fork_join& join = rest.join_;
    if (rest.start_from_next(fork_join::starter::next_of(join))) resume(join.parent());
  }
  bool start_from_next(fork_join::starter here) {
    const std::size_t count = count_;
    bool has_loop = true;
    while (has_loop && next_ < count) {
      std::size_t child = next_;
      tasks_(child, [&](auto& task) {
        try {
          next_ = child + 1;
          has_loop = here.start(task, next_ < count ? this : nullptr);
        } catch (...) {
          here.give_up(count - child);
          return has_loop = false;
        }
        // A child that blocks and lets its thread run other things, such as the rest, may leave a
        // later rest behind in place of ours.
        return has_loop && next_ == ++child;
      });
    }
    return here.settle(count);
  }

  fork_join& join_;
  const std::size_t count_;
  Tasks& tasks_;
  std::size_t next_ = 0;  // where the rest begins
};

}  // namespace gyre::detail

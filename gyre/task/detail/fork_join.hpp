// SPDX-License-Identifier: Apache-2.0
// fork_join: runs several tasks concurrently, on several threads if there are any, and joins them.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/task/context.hpp>
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

/// The join of a coroutine's children, and their contexts: a local, declared before the tasks.
///
/// A loop starts the children one by one. While a child runs, an executor that forks is offered the
/// rest of the loop, which another thread may steal (Blumofe and Leiserson, "Scheduling
/// multithreaded computations by work stealing", 1999). Children that finish before start() returns
/// cost no atomic operation and share one context; the others keep theirs, and count down.
class fork_join final : public child_set {
 public:
  enum class on_error { wait_for_all, stop_others };
  class starter;

  explicit fork_join(on_error policy) noexcept : policy_(policy) {}
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
    pending_.store(all_events(children), std::memory_order_relaxed);
  }
  /// The parent. When all have finished.
  std::coroutine_handle<> parent() const noexcept { return resumption_.waiting; }

  /// The context of the parent. After begin().
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

  // The events counted: each child's end, the end of its start, and the end of the loop.
  static constexpr std::size_t all_events(std::size_t children) noexcept {
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
  std::exception_ptr start_error_;  // set by the thread that has the loop, which then ends
  union {
    child first_;  // the context of the first child and, if that need not wait, of those after it
  };

  atomic<std::size_t> pending_{0};
  atomic<const task_end*> failed_{nullptr};
  atomic<child*> kept_{nullptr};  // contexts of children that went on by themselves
};

/// One thread's share of the loop that starts the children. Ends with finish().
class fork_join::starter {
 public:
  /// For the beginning of the loop, and for its rest.
  static starter first_of(fork_join& join) noexcept { return starter(join, &join.first_); }
  static starter next_of(fork_join& join) noexcept { return starter(join, nullptr); }
  starter& operator=(starter&&) = delete;

  /// Starts a child on this thread, with the loop's rest, if there is one, on offer. Returns
  /// whether this thread keeps the rest.
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

  /// After the last child, or when another thread has the loop. True if all have finished and this
  /// thread counted last; otherwise the join may be gone.
  bool finish(std::size_t children) noexcept;

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
      ++events_;
      if (task.failed()) join_.child_failed(task);
    } else {
      keep();
    }
    ++events_;
  }
  struct entered {
    const task_context* outer;
    bool is_deep;  // within too many other starts
  };
  static entered enter(const task_context& context) noexcept;
  static bool leave(const task_context* outer) noexcept;
  void keep() noexcept;

  fork_join& join_;
  child* spare_;             // a context that no child uses
  child* newest_ = nullptr;  // contexts of children that went on by themselves
  child* oldest_ = nullptr;
  std::size_t events_ = 0;
  bool has_loop_ = true;
  bool forks_ = true;  // as far as is known
};

/// Awaited, runs the tasks of `Tasks`: a function that calls its second argument with the state of
/// each task, from the index in its first argument on, until that returns false.
template <class Tasks>
class join_awaiter : operation {
 public:
  join_awaiter(fork_join& join, std::size_t count, Tasks& tasks) noexcept
      : operation(&run_rest), join_(join), count_(count), tasks_(tasks) {}

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
  static void run_rest(operation& self) {
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
        // A child that blocks may have run the rest on this thread, and left a later rest on offer.
        return has_loop && next_ == ++child;
      });
    }
    return here.finish(count);
  }

  fork_join& join_;
  const std::size_t count_;
  Tasks& tasks_;
  std::size_t next_ = 0;  // where the rest begins
};

}  // namespace gyre::detail

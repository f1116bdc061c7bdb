// SPDX-License-Identifier: Apache-2.0
// fork_join: runs several tasks concurrently, on several threads if the executor has them, and
// joins them.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/child_set.hpp>
#include <gyre/task/detail/stand_in.hpp>
#include <gyre/task/detail/transfer.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <concepts>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

namespace gyre::detail {

/// The thread's state of starting children: the innermost child that the thread starts now, and the
/// nesting of such starts. For functions that are not inlined into coroutines.
struct child_starts {
  // The context of the innermost child; null once that child has finished.
  const task_context* innermost = nullptr;
  unsigned depth = 0;           // the number of starts that are nested in one another
  executor* where = nullptr;    // the executor of the join that runs on this thread, or null
  fork_queue* queue = nullptr;  // the fork queue of `where` on this thread, or null
};
extern constinit thread_local child_starts starts_here;

/// Caches the fork queue of an executor for the joins that are nested within one that runs on this
/// thread.
class fork_queue_scope {
 public:
  fork_queue_scope(child_starts& starts, executor& target) noexcept
      : starts_(starts),
        outer_where_(std::exchange(starts.where, &target)),
        outer_queue_(std::exchange(starts.queue, target.fork_queue_here())) {}
  fork_queue_scope& operator=(fork_queue_scope&&) = delete;
  ~fork_queue_scope() {
    starts_.where = outer_where_;
    starts_.queue = outer_queue_;
  }

 private:
  child_starts& starts_;
  executor* const outer_where_;
  fork_queue* const outer_queue_;
};

/// The join of a coroutine's children, and their contexts. Base of its awaiter, and thus a part of
/// the coroutine's frame.
///
/// A loop starts the children one by one. While a child runs, the rest of the loop is offered to an
/// executor that forks, and another thread may steal it (Blumofe and Leiserson, "Scheduling
/// multithreaded computations by work stealing", 1999). The thief offers the later half of the
/// stolen rest again, so that many short children cost few thefts (Tzannes, Caragea, Barua and
/// Vishkin, "Lazy binary-splitting", 2010). Children that finish within their start need no atomic
/// operation and share one context. Every other child keeps a context of its own, and decrements an
/// atomic count when it ends.
class fork_join : protected child_set {
 public:
  enum class on_error { wait_for_all, stop_others };

  // The limit bounds the use of the stack: a nested start takes some 200 bytes to 2 KiB, depending
  // on compiler and build.
  static constexpr unsigned max_nested_starts = 64;

  fork_join& operator=(fork_join&&) = delete;

  void append_children(std::vector<task_context*>& contexts);

 protected:
  // The context of a child, and the frame to which the child transfers when it ends.
  struct child : task_context {
    explicit child(fork_join& owner) noexcept
        : task_context(context_of_child(*owner.parent_context_, owner.stop_token_)),
          frame(&after_child, [](void*) {}),
          join(&owner) {
      frame.stand_in_context(*this, *this);
      if constexpr (records_backtraces) {
        owner.prepare_context(*this);
        finished = [](task_context& self) noexcept -> std::coroutine_handle<> {
          return static_cast<child&>(self).frame.get_handle();
        };
      }
    }
    static task_context context_of_child(const task_context& parent,
                                         inplace_stop_token stop) noexcept {
      return {.where = parent.where,
              .stop = stop,
              .locals = parent.locals,
              .cancellations = parent.cancellations};
    }
    // Sets `start` to the coroutine that starts `task` as this child. Returns false if the task is
    // empty.
    template <class T>
    bool try_prepare(task_state<T>& task, std::coroutine_handle<>& start) noexcept {
      end = &task;
      if constexpr (records_backtraces) {
        if (!task.is_unawaited()) return false;
        start = task.prepare(static_cast<task_context&>(*this));
        return true;
      } else {
        return task.try_prepare(frame.get_handle(), *this, start);
      }
    }

    stand_in<child> frame;
    fork_join* join;
    task_end* end;
    child* next;
  };

  // A range of children that are still to be started, owned by one thread at a time. As an
  // operation, it starts them on the thread that stole it; the join's own loop resumes the parent
  // if it has no children left to start.
  struct loop : operation {
    loop(function run, fork_join& owner, std::size_t begin, std::size_t last) noexcept
        : operation(run), join(&owner), next(begin), end(last) {}
    fork_join* join;
    loop* older = nullptr;  // the loop that was split off before this one
    std::size_t next;
    std::size_t end;
  };

  // Contexts that one thread's share of a loop keeps, because their children still run, or because
  // their tasks hold an exception.
  struct kept_contexts {
    child* newest = nullptr;
    child* oldest = nullptr;
  };

  /// Constructed in await_suspend() of the coroutine `parent`.
  fork_join(std::coroutine_handle<> parent, const forking_coroutine& origin, on_error policy,
            operation::function run, std::size_t children) noexcept
      : parent_(parent),
        parent_context_(origin.context),
        pending_(all_events(children)),
        all_(run, *this, 0, children) {
    awaited_by_ = origin.awaits_child;
    attach(origin.lists_children);
    stop_token_ = policy == on_error::stop_others ? stop_.emplace(parent_context_->stop).get_token()
                                                  : parent_context_->stop;
  }
  ~fork_join() = default;

  std::coroutine_handle<> parent() const noexcept { return parent_; }
  const task_context& parent_context() const noexcept { return *parent_context_; }

  /// Leaves the later half of `remaining_children` in `queue` to other threads. Called by the
  /// thread that owns `remaining_children`.
  void split(loop& remaining_children, fork_queue& queue, operation::function run) noexcept;
  /// Resets `context` for the next child, since the previous child may have changed it.
  void prepare_context(child& context) noexcept {
    fork_context(context, *parent_context_, stop_token_);
    context.trace.awaited_by.set(awaited_by_.get());
  }
  /// Adds `context`, whose child still runs or has left an exception in its task, to the contexts
  /// that `list` holds.
  static void keep_context(kept_contexts& list, child& context) noexcept;
  /// Drops the children of `remaining_children`, and stores the exception being handled. Called in
  /// an exception handler.
  void give_up(loop& remaining_children) noexcept;
  void on_child_failed(const task_end& end) noexcept;
  /// Ends a share that has counted `events`. Returns true if all children have finished and this
  /// thread counted last; otherwise the join may have been destroyed.
  bool finish(const kept_contexts& list, std::size_t events, std::size_t children) noexcept {
    if (events == all_events(children) && list.newest == nullptr) [[likely]]
      return true;  // no other thread had a share in the join
    return finish_with_others(list, events);
  }
  /// Returns the list, linked by `next`, of the contexts that outlive the start of their child.
  /// Complete only when all children have finished.
  child* newest_kept() const noexcept {
    // relaxed: ordered by the last decrement of pending_.
    return newest_kept_.load(std::memory_order_relaxed);
  }
  /// Returns whether the destructor must call free_shared_memory().
  bool has_shared_memory() const noexcept {
    // relaxed: ordered by the last decrement of pending_, which acquires.
    return newest_kept() != nullptr || split_off_.load(std::memory_order_relaxed) != nullptr;
  }
  /// Returns whether the children's stop source is linked to the stop token of their parent.
  bool has_link() const noexcept { return stop_.has_value() && stop_->is_linked(); }
  /// Frees the loops that were split off, and the kept contexts, of `bytes` each, except `first`.
  void free_shared_memory(const child* first, std::size_t bytes) noexcept;

  /// Throws if a child could not be started. Called by the parent when all children have finished.
  void check_started() const {
    if (start_error_) [[unlikely]]
      std::rethrow_exception(start_error_);
  }
  /// Returns the first child that failed, or null. Called by the parent when all children have
  /// finished.
  const task_end* failed() const noexcept {
    // relaxed: ordered by the last decrement of pending_.
    return first_failure_.load(std::memory_order_relaxed);
  }

 private:
  // The number of events that pending_ counts: for each child its end and the end of its start, and
  // the end of the loop. A loop that is split off adds one event for its own end.
  static constexpr std::size_t all_events(std::size_t children) noexcept {
    return 2 * children + 1;
  }

  bool finish_with_others(const kept_contexts& list, std::size_t events) noexcept;
  // Counts the end of a child that did not finish within its start. Returns the parent if this
  // thread must resume it, else null.
  static std::coroutine_handle<> end_elsewhere(child& ended_child) noexcept;
  // Called as the resumption of a child's frame, when the child has ended.
  static void after_child(void* frame);

  // Every thread with a share reads the following members for each child, so they lie apart from
  // all_, which is written for each child.
  const std::coroutine_handle<> parent_;
  const task_context* const parent_context_;
  inplace_stop_token stop_token_;  // the stop token of the children
  [[no_unique_address]] traced_field<promise_base*> awaited_by_;

  std::optional<linked_stop_source> stop_;
  // The first error of a start; set by the thread that sets has_start_error_.
  std::exception_ptr start_error_;

  atomic<std::size_t> pending_;
  atomic<const task_end*> first_failure_{nullptr};
  // The contexts of children that did not end, or failed, within their start; the newest first.
  atomic<child*> newest_kept_{nullptr};
  atomic<loop*> split_off_{nullptr};
  atomic<bool> has_start_error_{false};

 protected:
  // The last member: in a derived class the context of the first child follows it, and one thread
  // writes both for each child.
  loop all_;  // the range of all children, except those of loops that were split off
};

}  // namespace gyre::detail

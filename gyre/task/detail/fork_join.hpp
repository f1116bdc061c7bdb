// SPDX-License-Identifier: Apache-2.0
// fork_join: runs several tasks concurrently, on several threads if there are any, and joins them.
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

/// The child that this thread starts now, and the nesting of such starts. For functions that are
/// not inlined into coroutines.
struct child_starts {
  const task_context* innermost = nullptr;  // the child's; null once that has finished
  unsigned depth = 0;                       // starts, one within the other
  executor* where = nullptr;                // of the join that runs here, if any
  fork_queue* queue = nullptr;              // of that executor, on this thread
};
extern constinit thread_local child_starts starts_here;

/// Keeps the fork queue of an executor at hand for the joins within one that runs on this thread.
class fork_queue_scope {
 public:
  fork_queue_scope(child_starts& starts, executor& where) noexcept
      : starts_(starts),
        outer_where_(std::exchange(starts.where, &where)),
        outer_queue_(std::exchange(starts.queue, where.fork_queue_here())) {}
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

/// The join of a coroutine's children, and their contexts. Base of its awaiter, and so a part of
/// the coroutine's frame.
///
/// A loop starts the children one by one. While a child runs, an executor that forks is offered the
/// rest of the loop, which another thread may steal (Blumofe and Leiserson, "Scheduling
/// multithreaded computations by work stealing", 1999). The thief leaves the later half of it to
/// others, so that many short children cost few thefts (Tzannes, Caragea, Barua and Vishkin, "Lazy
/// binary-splitting", 2010). Children that finish within their start cost no atomic operation and
/// share one context; the others keep theirs, and count down.
class fork_join : protected child_set {
 public:
  enum class on_error { wait_for_all, stop_others };

  // The limit bounds the stack: a start within another takes some 200 bytes to 2 KiB of it, by
  // compiler and build.
  static constexpr unsigned max_nested_starts = 64;

  fork_join& operator=(fork_join&&) = delete;

  void append_children(std::vector<task_context*>& contexts);

 protected:
  // A context, and the frame to which the child's end transfers.
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
    // The coroutine to resume, of the task whose child this is. False if the task is empty.
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

  // Starts children; one thread has it at a time. When the join's own loop has nothing left to
  // start, it resumes the parent.
  struct loop : operation {
    loop(function run, fork_join& owner, std::size_t begin, std::size_t last) noexcept
        : operation(run), join(&owner), next(begin), end(last) {}
    fork_join* join;
    loop* older = nullptr;  // of those split off
    std::size_t next;
    std::size_t end;
  };

  // The contexts that one thread's share of a loop keeps, because their children still run.
  struct kept_contexts {
    child* newest = nullptr;
    child* oldest = nullptr;
  };

  /// Constructed in await_suspend() of `parent`.
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

  /// Leaves the later half of `rest` in `queue` to other threads. Called by the thread that has
  /// `rest`.
  void split(loop& rest, fork_queue& queue, operation::function run) noexcept;
  /// Makes `context`, which a child before may have changed, that of the next one.
  void prepare_context(child& context) noexcept {
    fork_context(context, *parent_context_, stop_token_);
    context.trace.awaited_by.set(awaited_by_.get());
  }
  /// Keeps `context`, whose child was started last and still runs.
  static void keep_context(kept_contexts& kept, child& context) noexcept;
  /// Drops the children of `rest`, and keeps the exception being handled. Called in a handler.
  void give_up(loop& rest) noexcept;
  void child_failed(const task_end& end) noexcept;
  /// Ends a share that has counted `events`. True if all children have finished and this thread
  /// counted last; otherwise the join may be gone.
  bool finish(const kept_contexts& kept, std::size_t events, std::size_t children) noexcept {
    if (events == all_events(children) && kept.newest == nullptr) [[likely]]
      return true;  // no other thread had a part in it
    return finish_with_others(kept, events);
  }
  /// The contexts that were kept, linked by `next`; whole when all have finished.
  child* kept() const noexcept {
    return kept_.load(std::memory_order_relaxed);  // relaxed: the count has ordered it
  }
  /// Whether free_shared() must be called, by the destructor.
  bool has_shared() const noexcept {
    // relaxed: the count has ordered them.
    return kept() != nullptr || split_off_.load(std::memory_order_relaxed) != nullptr;
  }
  /// Whether the children have a stop source that is linked to their parent's.
  bool has_link() const noexcept { return stop_.has_value() && stop_->is_linked(); }
  /// Frees the loops that were split off, and the contexts that were kept, of `bytes` each, but
  /// `first`.
  void free_shared(const child* first, std::size_t bytes) noexcept;

  /// Throws if a child could not be started. Called by the parent, when all children have finished.
  void check_started() const {
    if (start_error_) [[unlikely]]
      std::rethrow_exception(start_error_);
  }
  /// The first child that failed, or null. Called by the parent, when all children have finished.
  const task_end* failed() const noexcept {
    return failed_.load(std::memory_order_relaxed);  // relaxed: the count has ordered it
  }

 private:
  // The events counted: each child's end, the end of its start, and the end of the loop. A loop
  // split off adds its own.
  static constexpr std::size_t all_events(std::size_t children) noexcept {
    return 2 * children + 1;
  }

  bool finish_with_others(const kept_contexts& kept, std::size_t events) noexcept;
  // Returns the parent, if it is to be resumed here.
  static std::coroutine_handle<> end_elsewhere(child& ended) noexcept;
  // The resumption of a child's frame, when the child has ended.
  static void after_child(void* frame);

  // Every thread that has a share reads these for each child, and so they lie apart from all_.
  const std::coroutine_handle<> parent_;
  const task_context* const parent_context_;
  inplace_stop_token stop_token_;  // of the children
  [[no_unique_address]] traced<promise_base*> awaited_by_;

  std::optional<linked_stop_source> stop_;
  std::exception_ptr start_error_;  // the first; set by the thread that sets has_start_error_

  atomic<std::size_t> pending_;
  atomic<const task_end*> failed_{nullptr};
  atomic<child*> kept_{nullptr};  // contexts of children that did not end within their start
  atomic<loop*> split_off_{nullptr};
  atomic<bool> has_start_error_{false};

 protected:
  // The last member, as the context of the first child comes after it in a derived class, and one
  // thread writes both for each child.
  loop all_;  // the children, but for those of loops split off
};

}  // namespace gyre::detail

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
#include <new>
#include <optional>
#include <ranges>
#include <tuple>
#include <utility>
#include <vector>

namespace gyre::detail {

/// The child that this thread starts now, and the nesting of such starts. For functions that are
/// not inlined into coroutines.
struct child_starts {
  const task_context* innermost = nullptr;  // the child's; null once that has finished
  unsigned depth = 0;                       // starts, one within the other
};
extern constinit thread_local child_starts starts_here;

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

  // One start within another takes some 200 bytes to 2 KiB of stack, by compiler and build.
  static constexpr unsigned most_nested_starts = 64;

#if GYRE_ASYNC_BACKTRACE
  void append_children(std::vector<task_context*>& to) override;
#endif

 protected:
  // A context, and the frame to which the child's end transfers.
  struct child : task_context {
    explicit child(fork_join& of) noexcept : frame(&after_child, [](void*) {}), join(&of) {
      frame.stand_in_context(*this, *this);
#if GYRE_ASYNC_BACKTRACE
      finished = [](task_context& self) noexcept -> std::coroutine_handle<> {
        return static_cast<child&>(self).frame.get_handle();
      };
#endif
    }
    // The coroutine to resume, of the task whose child this is.
    template <class T>
    std::coroutine_handle<> prepare(task_state<T>& task) {
      end = &task;
#if GYRE_ASYNC_BACKTRACE
      return task.prepare(static_cast<task_context&>(*this));
#else
      return task.prepare(frame.get_handle());
#endif
    }

    stand_in<child> frame;
    fork_join* join;
    task_end* end;
    child* next;
  };

  // Starts children; one thread has it at a time. When the join's own loop has nothing left to
  // start, it resumes the parent.
  struct loop : operation {
    loop(function run, fork_join& of, std::size_t begin, std::size_t last) noexcept
        : operation(run), join(&of), next(begin), end(last) {}
    fork_join* join;
    loop* older = nullptr;  // of those split off
    std::size_t next;
    std::size_t end;
  };

  // One thread's share of a loop.
  struct share {
    child* context;           // of the next child, if not null; those before do not need it
    child* newest = nullptr;  // contexts of children that went on by themselves
    child* oldest = nullptr;
    std::size_t events = 0;
  };

  fork_join(operation::function run, on_error policy) noexcept
      : all_(run, *this, 0, 0), policy_(policy) {}
  ~fork_join() {
    // relaxed: the count has ordered them.
    if (kept_.load(std::memory_order_relaxed) != nullptr ||
        split_off_.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
      free_shared();
  }

  /// For the parent's await_suspend(): before the loop. Throws std::logic_error the second time.
  template <class Promise>
  void begin(std::coroutine_handle<Promise> parent, std::size_t children) {
    if (parent_) [[unlikely]]
      throw_empty_task();
    parent_ = parent;
    parent_context_ = &context_of(parent);
#if GYRE_ASYNC_BACKTRACE
    if constexpr (std::derived_from<Promise, promise_base>) awaited_by_ = &parent.promise();
#endif
    attach(parent);
    if (policy_ == on_error::stop_others) stop_.emplace(parent_context_->stop);
    all_.end = children;
    ::new (&first_) child(*this);
    // relaxed: nobody else knows it before a child starts.
    pending_.store(all_events(children), std::memory_order_relaxed);
  }
  std::coroutine_handle<> parent() const noexcept { return parent_; }
  /// The context of the parent. After begin().
  const task_context& parent_context() const noexcept { return *parent_context_; }
  on_error policy() const noexcept { return policy_; }

  /// By the thread that has `rest`: leaves its later half in `queue` to others.
  void split(loop& rest, fork_queue& queue, operation::function run) noexcept;
  /// The context for the next child of this share, which a child before may have changed.
  child& next_context(share& mine) {
    if (mine.context == nullptr) [[unlikely]]
      mine.context = new_context();
    child& context = *mine.context;
    fork_context(context, *parent_context_);
    if (stop_) context.stop = stop_->get_token();
#if GYRE_ASYNC_BACKTRACE
    context.awaited_by = awaited_by_;
#endif
    return context;
  }
  /// The child that was started last runs on by itself.
  void keep_context(share& mine) noexcept;
  /// In a handler: drops the children of `rest`.
  void give_up(share& mine, loop& rest) noexcept;
  void child_failed(const task_end& end) noexcept;
  /// At the end of a share. True if all have finished and this thread counted last; otherwise the
  /// join may be gone.
  bool finish(share& mine, std::size_t children) noexcept {
    if (mine.events == all_events(children) && mine.context == &first_) [[likely]]
      return true;  // no other thread had a part in it
    return finish_with_others(mine, children);
  }

  /// Throws if a child could not be started. The parent, when all have finished.
  void check_started() const {
    if (start_error_) [[unlikely]]
      std::rethrow_exception(start_error_);
  }
  /// The first child that failed, or null. The parent, when all have finished.
  const task_end* failed() const noexcept {
    return failed_.load(std::memory_order_relaxed);  // relaxed: the count has ordered it
  }

  loop all_;  // the children, but for those of loops split off
  union {
    child first_;  // the context of the first child, and others of that thread
  };

 private:
  // The events counted: each child's end, the end of its start, and the end of the loop. A loop
  // split off adds its own.
  static constexpr std::size_t all_events(std::size_t children) noexcept {
    return 2 * children + 1;
  }

  child* new_context();
  bool finish_with_others(share& mine, std::size_t children) noexcept;
  void free_shared() noexcept;
  // Returns the parent, if it is to be resumed here.
  static std::coroutine_handle<> end_elsewhere(child& ended) noexcept;
  // The resumption of a child's frame, when the child has ended.
  static void after_child(void* frame);

  const on_error policy_;
  std::coroutine_handle<> parent_;
  const task_context* parent_context_ = nullptr;
#if GYRE_ASYNC_BACKTRACE
  const promise_base* awaited_by_ = nullptr;
#endif
  std::optional<linked_stop_source> stop_;
  std::exception_ptr start_error_;  // the first; set by the thread that sets has_start_error_

  atomic<std::size_t> pending_{0};
  atomic<const task_end*> failed_{nullptr};
  atomic<child*> kept_{nullptr};  // contexts of children that went on by themselves
  atomic<loop*> split_off_{nullptr};
  atomic<bool> has_start_error_{false};
};

/// The tasks of a join, by index.
template <std::ranges::sized_range Range>
constexpr std::size_t count_of(const Range& tasks) noexcept {
  return std::ranges::size(tasks);
}
template <class... Ts>
constexpr std::size_t count_of(const std::tuple<task<Ts>...>&) noexcept {
  return sizeof...(Ts);
}
template <std::ranges::random_access_range Range, class F>
auto visit_task(Range& tasks, std::size_t index, F&& function) {
  return function(tasks[index]);
}
template <std::size_t Begin, std::size_t End, class... Ts, class F>
auto visit_element(std::tuple<task<Ts>...>& tasks, std::size_t index, F& function) {
  if constexpr (End - Begin == 1) {
    return function(std::get<Begin>(tasks));
  } else {
    constexpr std::size_t middle = Begin + (End - Begin) / 2;
    return index < middle ? visit_element<Begin, middle>(tasks, index, function)
                          : visit_element<middle, End>(tasks, index, function);
  }
}
template <class... Ts, class F>
auto visit_task(std::tuple<task<Ts>...>& tasks, std::size_t index, F&& function) {
  return visit_element<0, sizeof...(Ts)>(tasks, index, function);
}

/// Awaited, runs `Tasks`: a vector, an array or a tuple of tasks. Base of awaiters that give the
/// results.
template <class Tasks>
class join_awaiter : public fork_join {
 public:
  template <class... Sources>
  explicit join_awaiter(on_error policy, Sources&&... tasks)
      : fork_join(&run, policy), tasks_(std::forward<Sources>(tasks)...) {}
  /// Before it is awaited.
  join_awaiter(join_awaiter&& other) noexcept
      : join_awaiter(other.policy(), std::move(other.tasks_)) {}
  join_awaiter& operator=(join_awaiter&&) = delete;

  static constexpr bool executor_affine = true;
  bool await_ready() const noexcept { return count_of(tasks_) == 0; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> parent) {
    begin(parent, count_of(tasks_));
    return !run_share(all_, &first_);
  }

 protected:
  ~join_awaiter() = default;

  Tasks tasks_;  // refer to contexts of the join

 private:
  static void run(operation& self) {
    auto& rest = static_cast<loop&>(self);
    auto& join = static_cast<join_awaiter&>(*rest.join);
    const bool has_ended = rest.next == rest.end;
    if (has_ended || join.run_share(rest, nullptr)) resume(join.parent());
  }

  // This thread's share of `rest`, whose first child may use `context`. True if all have finished;
  // otherwise the join may be gone. Not inlined into a coroutine, because of the thread-local.
  [[gnu::noinline]] bool run_share(loop& rest, child* context) noexcept {
    fork_queue* const queue = this->parent_context().where->fork_queue_here();
    child_starts& starts = starts_here;
    const task_context* const outer = starts.innermost;
    const bool is_deep = starts.depth++ >= most_nested_starts;
    share mine{.context = context};
    bool has_loop = true;
    // The loop was stolen, or is what was left of it.
    if (context == nullptr && queue != nullptr) split(rest, *queue, &run);
    // A child that blocks may run the rest on this thread, and leave a later rest in the queue.
    while (has_loop && rest.next < rest.end) {
      std::coroutine_handle<> first;
      try {
        child& its = next_context(mine);
        first = visit_task(tasks_, rest.next,
                           [&](auto& task) { return its.prepare(task_access::state(task)); });
      } catch (...) {
        const task_end* const empty = visit_task(tasks_, rest.next, [](auto& task) {
          return task_access::state(task).fail_if_empty(std::current_exception());
        });
        if (empty == nullptr) {
          give_up(mine, rest);
          break;
        }
        ++rest.next;
        mine.events += 2;
        child_failed(*empty);
        continue;
      }
      ++rest.next;
      starts.innermost = mine.context;
      const bool forked = rest.next < rest.end && queue != nullptr && queue->push(rest);
      if (is_deep) [[unlikely]] {
        start_nested(first, *mine.context->where);
      } else {
        resume(first);
      }
      mine.events += 2;
      if (starts.innermost != nullptr) [[unlikely]] {
        keep_context(mine);
      } else {
        mine.context->end->end_without_continuation();
        if (mine.context->end->failed()) [[unlikely]]
          child_failed(*mine.context->end);
      }
      has_loop = !forked || queue->take_back(rest);
      if (has_loop && rest.end - rest.next > 1 && queue != nullptr && queue->take_request())
        split(rest, *queue, &run);
    }
    starts.innermost = outer;
    --starts.depth;
    if (has_loop) ++mine.events;
    return finish(mine, count_of(tasks_));
  }
};

}  // namespace gyre::detail

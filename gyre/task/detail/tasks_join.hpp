// SPDX-License-Identifier: Apache-2.0
// tasks_join: a fork_join with its tasks, and the loop that starts them.
#pragma once

#include <gyre/base/slab.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/child_set.hpp>
#include <gyre/task/detail/fork_join.hpp>
#include <gyre/task/detail/join_tasks.hpp>
#include <gyre/task/detail/transfer.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/task.hpp>

#include <coroutine>
#include <cstddef>
#include <exception>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>

namespace gyre::detail {

/// Whether the tasks are a pair, for which the loop over the tasks is unrolled.
template <class Tasks>
inline constexpr bool is_pair = false;
template <class First, class Second>
inline constexpr bool is_pair<std::tuple<task<First>, task<Second>>> = true;

/// Holds the reference to the tasks. It is a base before fork_join, so that the reference, which
/// every thread reads for each child, lies apart from the members that one thread writes for each
/// child.
template <class Tasks>
class tasks_reference {
 protected:
  explicit tasks_reference(Tasks& tasks) noexcept : tasks_(tasks) {}
  ~tasks_reference() = default;
  Tasks& tasks_;
};

/// The join of `Tasks`, constructed when the join is awaited.
template <class Tasks>
class tasks_join final : tasks_reference<Tasks>, public fork_join {
  using tasks_reference<Tasks>::tasks_;

  struct task_child : child, child_slot<Tasks> {
    using child::child;
  };

 public:
  tasks_join(std::coroutine_handle<> parent, const forking_coroutine& caller, on_error policy,
             Tasks& tasks) noexcept
      : tasks_reference<Tasks>(tasks), fork_join(parent, caller, policy, &run, count_of(tasks)) {}
  tasks_join& operator=(tasks_join&&) = delete;
  ~tasks_join() {
    if (has_shared_memory()) [[unlikely]]
      free_shared_memory(&inline_context_, sizeof(task_child));
  }

  using fork_join::check_started;
  using fork_join::failed;
  using fork_join::has_link;
  using fork_join::parent_context;

  /// Calls function(task, result) for each child whose result was not moved when the child ended.
  /// Called by the parent when all children have finished.
  template <class F>
  void for_each_kept_child(F&& function) {
    for (auto* position = this->newest_kept(); position != nullptr; position = position->next) {
      auto& kept_child = static_cast<task_child&>(*position);
      function(kept_child.work, *kept_child.result);
    }
  }

  /// Starts the children. Returns true if all have finished; otherwise the join may be gone. Not
  /// inlined into a coroutine, because a compiler would cache the address of the thread-local
  /// variable over a suspension.
  bool run_all() noexcept {
    child_starts& starts = starts_here;
    executor& target = *parent_context().where;
    return starts.where == &target ? run_children(starts) : run_outermost(starts, target);
  }
  /// Returns whether a child has waited, failed or been taken by another thread. Called by the
  /// parent when all children have finished.
  bool was_disturbed() const noexcept { return !is_undisturbed_; }

 private:
  // The state of one thread's share of the loop over the children.
  struct share {
    child_starts& starts;
    fork_queue* const queue;
    const task_context* const outer_child;  // the child within whose start the share runs, or null
    const bool exceeds_nesting_limit;
    task_child* context;     // the context for the next child; null if a new one is needed
    std::size_t events = 0;  // the events that this share has counted: see fork_join::finish()
    bool has_loop = true;    // whether this thread owns the loop, which another thread may steal
    kept_contexts kept_list{};
  };

  static void run(operation& self) {
    auto& remaining_children = static_cast<loop&>(self);
    auto& join = static_cast<tasks_join&>(*remaining_children.join);
    const bool has_ended = remaining_children.next == remaining_children.end;
    if (has_ended || join.run_stolen(remaining_children)) resume(join.parent());
  }

  // Whether the results of a pair may stay in the state in which the children left them, until they
  // are moved.
  template <class T>
  static constexpr bool moves_quietly = std::is_nothrow_move_constructible_v<stored_result_t<T>>;
  template <class First, class Second>
  static constexpr bool take_quietly(const std::tuple<task<First>, task<Second>>*) noexcept {
    return moves_quietly<First> && moves_quietly<Second>;
  }

  // Records the end of a child of a pair, unless the child's result may stay as it is.
  template <class T>
  static void note_end(task_state<T>& state) noexcept {
    if constexpr (!take_quietly(static_cast<Tasks*>(nullptr))) state.end_without_continuation();
  }

  // Runs a join that is not nested in another join on the same executor. The function is separate,
  // so that run_all() saves no registers.
  [[gnu::noinline]] bool run_outermost(child_starts& starts, executor& target) noexcept {
    const fork_queue_scope queue_scope(starts, target);
    return run_children(starts);
  }

  // Runs all children on the fast path, which ends when a child waits, fails or moves to another
  // thread.
  [[gnu::noinline]] bool run_children(child_starts& starts) noexcept {
    const task_context* const outer_child = starts.innermost;
    ::new (&inline_context_) task_child(*this);
    if (starts.depth++ >= max_nested_starts || next_on_trampoline != nullptr) [[unlikely]]
      return continue_share(starts, outer_child, 0);
    bool ends = false;
    if constexpr (is_pair<Tasks>) {
      if (!run_pair(starts, outer_child, ends)) [[unlikely]]
        return ends;
    } else {
      if (!run_loop(starts, outer_child, ends)) [[unlikely]]
        return ends;
    }
    starts.innermost = outer_child;
    --starts.depth;
    is_undisturbed_ = true;
    return true;
  }

  // Resumes a child as resume() does, on a thread without a trampoline.
  static void resume_here(std::coroutine_handle<> start) noexcept {
    if (may_resume(start)) [[likely]]
      start.resume();
  }

  // Runs a pair on the fast path. Returns false if a child was disturbed: it waited, failed or
  // moved to another thread. `ends` is then the result of run_all().
  [[gnu::always_inline]] bool run_pair(child_starts& starts, const task_context* outer_child,
                                       bool& ends) noexcept {
    // Null if the rest of the loop is not offered to other threads.
    fork_queue* queue = starts.queue;
    auto& first = task_access::state(std::get<0>(tasks_));
    auto& second = task_access::state(std::get<1>(tasks_));
    std::coroutine_handle<> start;
    if (!inline_context_.try_prepare(first, start)) [[unlikely]] {
      ends = continue_share(starts, outer_child, 0);
      return false;
    }
    all_.next = 1;
    starts.innermost = &inline_context_;
    if (queue != nullptr && !queue->push(all_)) [[unlikely]]
      queue = nullptr;
    resume_here(start);
    if (starts.innermost != nullptr || first.failed()) [[unlikely]] {
      ends = end_disturbed_start(starts, outer_child, 0, queue != nullptr);
      return false;
    }
    note_end(first);
    if (queue != nullptr && !queue->take_back(all_)) [[unlikely]] {
      first.end_without_continuation();
      ends = leave_loop(starts, outer_child, 1);
      return false;
    }
    this->prepare_context(inline_context_);
    if (!inline_context_.try_prepare(second, start)) [[unlikely]] {
      first.end_without_continuation();
      ends = continue_share(starts, outer_child, 1);
      return false;
    }
    all_.next = 2;
    starts.innermost = &inline_context_;
    resume_here(start);
    if (starts.innermost != nullptr || second.failed()) [[unlikely]] {
      first.end_without_continuation();
      ends = end_disturbed_start(starts, outer_child, 1, false);
      return false;
    }
    note_end(second);
    return true;
  }

  // Runs the children of a loop on the fast path. Returns as run_pair() does.
  [[gnu::always_inline]] bool run_loop(child_starts& starts, const task_context* outer_child,
                                       bool& ends) noexcept {
    fork_queue* const queue = starts.queue;
    const std::size_t last_index = all_.end - 1;
    const std::size_t forks = queue != nullptr ? last_index : 0;
    for (std::size_t index = 0;; ++index) {
      std::coroutine_handle<> start;
      if (!prepare_child(inline_context_, all_, index, start)) [[unlikely]] {
        ends = continue_share(starts, outer_child, all_.next);
        return false;
      }
      all_.next = index + 1;
      starts.innermost = &inline_context_;
      const bool is_offered = index < forks && queue->push(all_);
      resume_here(start);
      if (starts.innermost != nullptr || !take_end(inline_context_)) [[unlikely]] {
        ends = end_disturbed_start(starts, outer_child, index, is_offered);
        return false;
      }
      if (index == last_index) return true;
      if (is_offered && !queue->take_back(all_)) [[unlikely]] {
        ends = leave_loop(starts, outer_child, index + 1);
        return false;
      }
      // A child that blocks its thread may meanwhile run a part of this loop, and leave a later
      // part in the queue.
      if (all_.next != index + 1 || (is_offered && queue->has_request())) [[unlikely]] {
        ends = continue_share(starts, outer_child, index + 1);
        return false;
      }
      this->prepare_context(inline_context_);
    }
  }

  // Prepares the child `index` of `remaining_children`, and sets `start` to the coroutine to
  // resume. Returns false if the child's task cannot be awaited, or could not be made; in the
  // second case no more children are started.
  [[gnu::always_inline]] bool prepare_child(task_child& target, loop& remaining_children,
                                            std::size_t index,
                                            std::coroutine_handle<>& start) noexcept {
    if constexpr (makes_tasks<Tasks>) {
      using task_type = decltype(target.work);
      try {
        // The task replaced here is empty.
        ::new (&target.work) task_type(as_task(tasks_.make(index)));
        target.result = &tasks_.results[index];
        if (!target.try_prepare(task_access::state(target.work), start)) [[unlikely]]
          throw_empty_task();
        return true;
      } catch (...) {
        this->give_up(remaining_children);
        return false;
      }
    } else {
      return visit_task(tasks_, index, [&](auto& work) noexcept {
        return target.try_prepare(task_access::state(work), start);
      });
    }
  }

  // Prepares the next child of `remaining_children`, as prepare_child() does. A child whose task
  // cannot be awaited counts as ended.
  [[gnu::always_inline]] bool prepare_next(task_child& target, loop& remaining_children,
                                           std::coroutine_handle<>& start) noexcept {
    this->prepare_context(target);
    if (prepare_child(target, remaining_children, remaining_children.next, start)) [[likely]]
      return true;
    if constexpr (!makes_tasks<Tasks>) pass_over(remaining_children);
    return false;
  }

  // Moves the result of a child that has ended to its place, or records the child's end. Returns
  // false if the child has failed.
  [[gnu::always_inline]] bool take_end(task_child& ended_child) noexcept {
    if constexpr (makes_tasks<Tasks>) {
      return task_access::state(ended_child.work).move_result(*ended_child.result);
    } else {
      ended_child.end->end_without_continuation();
      return !ended_child.end->failed();
    }
  }

  // Returns the share that continues after the fast path, on which `ended_count` children have
  // ended.
  share rest_of_share(child_starts& starts, const task_context* outer_child,
                      std::size_t ended_count) noexcept {
    return {.starts = starts,
            .queue = starts.queue,
            .outer_child = outer_child,
            .exceeds_nesting_limit = starts.depth > max_nested_starts,
            .context = &inline_context_,
            .events = 2 * ended_count};
  }
  // Leaves the fast path before the next child, for one of several reasons: another thread has
  // requested a part of the loop, the next child cannot be prepared, or starts are nested too
  // deeply.
  [[gnu::noinline]] bool continue_share(child_starts& starts, const task_context* outer_child,
                                        std::size_t ended_count) noexcept {
    share own_share = rest_of_share(starts, outer_child, ended_count);
    share_on_request(all_, own_share);
    return run_share(all_, own_share);
  }
  // Leaves the fast path after the start of a child that waits or has failed.
  [[gnu::noinline]] bool end_disturbed_start(child_starts& starts, const task_context* outer_child,
                                             std::size_t ended_count, bool is_offered) noexcept {
    share own_share = rest_of_share(starts, outer_child, ended_count);
    end_start(all_, own_share, is_offered);
    return run_share(all_, own_share);
  }
  // Leaves the fast path because another thread has taken the loop.
  [[gnu::noinline]] bool leave_loop(child_starts& starts, const task_context* outer_child,
                                    std::size_t ended_count) noexcept {
    share own_share = rest_of_share(starts, outer_child, ended_count);
    own_share.has_loop = false;
    return run_share(all_, own_share);
  }

  // Runs the share of a thread that has stolen `remaining_children`, or that runs
  // `remaining_children` as a posted operation.
  [[gnu::noinline]] bool run_stolen(loop& remaining_children) noexcept {
    child_starts& starts = starts_here;
    const fork_queue_scope queue_scope(starts, *parent_context().where);
    share own_share{.starts = starts,
                    .queue = starts.queue,
                    .outer_child = starts.innermost,
                    .exceeds_nesting_limit = starts.depth++ >= max_nested_starts,
                    .context = nullptr};
    if (own_share.queue != nullptr) this->split(remaining_children, *own_share.queue, &run);
    return run_share(remaining_children, own_share);
  }

  // Starts the children of `remaining_children`, as long as this thread owns `remaining_children`.
  // Returns true if all children have finished; otherwise the join may have been destroyed.
  [[gnu::noinline]] bool run_share(loop& remaining_children, share& own_share) noexcept {
    // A child that blocks its thread may meanwhile run a part of this loop, and leave a later part
    // in the queue.
    while (own_share.has_loop && remaining_children.next < remaining_children.end) {
      if (own_share.context == nullptr) own_share.context = try_new_context(remaining_children);
      const std::size_t index = remaining_children.next;
      std::coroutine_handle<> start;
      if (own_share.context == nullptr ||
          !prepare_next(*own_share.context, remaining_children, start)) [[unlikely]] {
        own_share.events += 2 * (remaining_children.next - index);
        continue;
      }
      remaining_children.next = index + 1;
      start_child(start, remaining_children, own_share);
      share_on_request(remaining_children, own_share);
    }
    own_share.starts.innermost = own_share.outer_child;
    --own_share.starts.depth;
    if (own_share.has_loop) ++own_share.events;
    if (own_share.context != nullptr && own_share.context != &inline_context_) [[unlikely]]
      slab_deallocate(own_share.context, sizeof(task_child));
    return this->finish(own_share.kept_list, own_share.events, count_of(tasks_));
  }

  // Runs the child `first` until it ends or waits for the first time. Meanwhile other threads may
  // steal `remaining_children` if it is not empty.
  [[gnu::always_inline]] void start_child(std::coroutine_handle<> first, loop& remaining_children,
                                          share& own_share) noexcept {
    own_share.starts.innermost = own_share.context;
    const bool is_offered = remaining_children.next < remaining_children.end &&
                            own_share.queue != nullptr && own_share.queue->push(remaining_children);
    if (own_share.exceeds_nesting_limit) [[unlikely]] {
      start_nested(first, *own_share.context->where);
    } else {
      resume(first);
    }
    end_start(remaining_children, own_share, is_offered);
  }

  // Counts the events of the child of `own_share.context`, whose start has returned, and takes
  // `remaining_children` back.
  [[gnu::always_inline]] void end_start(loop& remaining_children, share& own_share,
                                        bool is_offered) noexcept {
    own_share.events += 2;
    if (own_share.starts.innermost != nullptr) [[unlikely]] {
      this->keep_context(own_share.kept_list, *std::exchange(own_share.context, nullptr));
      --own_share.events;  // the end of the child is counted when it ends
    } else if (!take_end(*own_share.context)) [[unlikely]] {
      this->on_child_failed(*own_share.context->end);
      if constexpr (makes_tasks<Tasks>) {  // the task in the context holds the exception
        this->keep_context(own_share.kept_list, *std::exchange(own_share.context, nullptr));
      }
    }
    own_share.has_loop = !is_offered || own_share.queue->take_back(remaining_children);
  }

  // Makes a context for further children, after the previous context was kept. Without memory gives
  // up `remaining_children` and returns null.
  task_child* try_new_context(loop& remaining_children) noexcept {
    try {
      return ::new (slab_allocate(sizeof(task_child))) task_child(*this);
    } catch (...) {
      this->give_up(remaining_children);
      return nullptr;
    }
  }

  void share_on_request(loop& remaining_children, share& own_share) noexcept {
    if (own_share.has_loop && remaining_children.end - remaining_children.next > 1 &&
        own_share.queue != nullptr && own_share.queue->take_request())
      this->split(remaining_children, *own_share.queue, &run);
  }

  // Stores the error of the next child, whose task cannot be awaited, and skips the child.
  [[gnu::noinline, gnu::cold]] void pass_over(loop& remaining_children) noexcept {
    try {
      throw_empty_task();
    } catch (...) {
      const task_end* const empty = visit_task(tasks_, remaining_children.next, [](auto& task) {
        return task_access::state(task).fail_if_empty(std::current_exception());
      });
      if (empty == nullptr) return this->give_up(remaining_children);
      ++remaining_children.next;
      this->on_child_failed(*empty);
    }
  }

  bool is_undisturbed_ = false;
  union {
    // The context of the children that run_children() starts, one after the other, until one must
    // be kept.
    task_child inline_context_;
  };
};

}  // namespace gyre::detail

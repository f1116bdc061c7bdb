// SPDX-License-Identifier: Apache-2.0
// tasks_join: a fork_join with its tasks, and the loops that start them.
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

/// Whether the loop over the tasks is unrolled.
template <class Tasks>
inline constexpr bool is_pair = false;
template <class First, class Second>
inline constexpr bool is_pair<std::tuple<task<First>, task<Second>>> = true;

/// The tasks, for a base that comes before fork_join: what every thread reads for each child lies
/// apart from what one thread writes for each.
template <class Tasks>
class tasks_reference {
 protected:
  explicit tasks_reference(Tasks& tasks) noexcept : tasks_(tasks) {}
  ~tasks_reference() = default;
  Tasks& tasks_;
};

/// The join of `Tasks`, from the await on.
template <class Tasks>
class tasks_join final : tasks_reference<Tasks>, public fork_join {
  using tasks_reference<Tasks>::tasks_;

  struct its_child : child, child_slot<Tasks> {
    using child::child;
  };

 public:
  tasks_join(std::coroutine_handle<> parent, const forking_coroutine& from, on_error policy,
             Tasks& tasks) noexcept
      : tasks_reference<Tasks>(tasks), fork_join(parent, from, policy, &run, count_of(tasks)) {}
  tasks_join& operator=(tasks_join&&) = delete;
  ~tasks_join() {
    if (has_shared()) [[unlikely]]
      free_shared(&first_, sizeof(its_child));
  }

  using fork_join::check_started;
  using fork_join::failed;
  using fork_join::has_link;
  using fork_join::parent_context;

  /// Calls function(task, result) for each child whose result was not moved at its end. The parent,
  /// when all have finished.
  template <class F>
  void for_each_kept(F&& function) {
    for (auto* each = this->kept(); each != nullptr; each = each->next) {
      auto& its = static_cast<its_child&>(*each);
      function(its.work, *its.result);
    }
  }

  /// Starts the children. True if all have finished; otherwise the join may be gone. Not inlined
  /// into a coroutine, because of the thread-local.
  bool run_all() noexcept {
    child_starts& starts = starts_here;
    executor& where = *parent_context().where;
    return starts.where == &where ? run_children(starts) : run_outermost(starts, where);
  }
  /// Whether a child has waited, failed or been taken by another thread. The parent, when all have
  /// finished.
  bool was_disturbed() const noexcept { return !undisturbed_; }

 private:
  // The state of one thread's share of the children's loop.
  struct share {
    child_starts& starts;
    fork_queue* const queue;
    const task_context* const outer;  // the child that this thread was starting before
    const bool is_deep;
    its_child* context;      // of the next child, if not null
    std::size_t events = 0;  // counted
    bool has_loop = true;
    kept_contexts kept{};
  };

  static void run(operation& self) {
    auto& rest = static_cast<loop&>(self);
    auto& join = static_cast<tasks_join&>(*rest.join);
    const bool has_ended = rest.next == rest.end;
    if (has_ended || join.run_stolen(rest)) resume(join.parent());
  }

  // Whether a pair's results may stay as the children have left them until they are taken.
  template <class T>
  static constexpr bool moves_quietly = std::is_nothrow_move_constructible_v<stored_result_t<T>>;
  template <class First, class Second>
  static constexpr bool take_quietly(const std::tuple<task<First>, task<Second>>*) noexcept {
    return moves_quietly<First> && moves_quietly<Second>;
  }

  // Notes the end of a child of a pair, unless its result may stay as it is.
  template <class T>
  static void note_end(task_state<T>& ended) noexcept {
    if constexpr (!take_quietly(static_cast<Tasks*>(nullptr))) ended.end_without_continuation();
  }

  // Not within a join on the same executor. Apart, so that the others save no registers.
  [[gnu::noinline]] bool run_outermost(child_starts& starts, executor& where) noexcept {
    const fork_queue_scope here(starts, where);
    return run_children(starts);
  }

  // The short way through all children, as long as none waits, fails or goes to another thread.
  [[gnu::noinline]] bool run_children(child_starts& starts) noexcept {
    const task_context* const outer = starts.innermost;
    ::new (&first_) its_child(*this);
    if (starts.depth++ >= max_nested_starts || next_on_trampoline != nullptr) [[unlikely]]
      return continue_share(starts, outer, 0);
    bool ends = false;
    if constexpr (is_pair<Tasks>) {
      if (!run_pair(starts, outer, ends)) [[unlikely]]
        return ends;
    } else {
      if (!run_loop(starts, outer, ends)) [[unlikely]]
        return ends;
    }
    starts.innermost = outer;
    --starts.depth;
    undisturbed_ = true;
    return true;
  }

  // Resumes a child as resume() does, on a thread on which no trampoline runs.
  static void resume_here(std::coroutine_handle<> start) noexcept {
    if (may_resume(start)) [[likely]]
      start.resume();
  }

  // False if it was disturbed; `ends` is then what run_all() returns.
  [[gnu::always_inline]] bool run_pair(child_starts& starts, const task_context* outer,
                                       bool& ends) noexcept {
    fork_queue* queue = starts.queue;  // where this forks
    auto& first = task_access::state(std::get<0>(tasks_));
    auto& second = task_access::state(std::get<1>(tasks_));
    std::coroutine_handle<> start;
    if (!first_.try_prepare(first, start)) [[unlikely]] {
      ends = continue_share(starts, outer, 0);
      return false;
    }
    all_.next = 1;
    starts.innermost = &first_;
    if (queue != nullptr && !queue->push(all_)) [[unlikely]]
      queue = nullptr;
    resume_here(start);
    if (starts.innermost != nullptr || first.failed()) [[unlikely]] {
      ends = end_disturbed_start(starts, outer, 0, queue != nullptr);
      return false;
    }
    note_end(first);
    if (queue != nullptr && !queue->take_back(all_)) [[unlikely]] {
      first.end_without_continuation();
      ends = leave_loop(starts, outer, 1);
      return false;
    }
    this->prepare_context(first_);
    if (!first_.try_prepare(second, start)) [[unlikely]] {
      first.end_without_continuation();
      ends = continue_share(starts, outer, 1);
      return false;
    }
    all_.next = 2;
    starts.innermost = &first_;
    resume_here(start);
    if (starts.innermost != nullptr || second.failed()) [[unlikely]] {
      first.end_without_continuation();
      ends = end_disturbed_start(starts, outer, 1, false);
      return false;
    }
    note_end(second);
    return true;
  }

  // Runs the children of a loop in the short way, as run_pair() does those of a pair.
  [[gnu::always_inline]] bool run_loop(child_starts& starts, const task_context* outer,
                                       bool& ends) noexcept {
    fork_queue* const queue = starts.queue;
    const std::size_t last = all_.end - 1;
    const std::size_t forks = queue != nullptr ? last : 0;
    for (std::size_t index = 0;; ++index) {
      std::coroutine_handle<> start;
      if (!prepare_child(first_, all_, index, start)) [[unlikely]] {
        ends = continue_share(starts, outer, all_.next);
        return false;
      }
      all_.next = index + 1;
      starts.innermost = &first_;
      const bool forked = index < forks && queue->push(all_);
      resume_here(start);
      if (starts.innermost != nullptr || !take_end(first_)) [[unlikely]] {
        ends = end_disturbed_start(starts, outer, index, forked);
        return false;
      }
      if (index == last) return true;
      if (forked && !queue->take_back(all_)) [[unlikely]] {
        ends = leave_loop(starts, outer, index + 1);
        return false;
      }
      // A child that blocks may run the rest on this thread, and leave a later rest in the queue.
      if (all_.next != index + 1 || (forked && queue->has_request())) [[unlikely]] {
        ends = continue_share(starts, outer, index + 1);
        return false;
      }
      this->prepare_context(first_);
    }
  }

  // Readies the child `index` of `rest` to be resumed by `start`. False if its task cannot be
  // awaited, or could not be made; then no more children are started.
  [[gnu::always_inline]] bool prepare_child(its_child& its, loop& rest, std::size_t index,
                                            std::coroutine_handle<>& start) noexcept {
    if constexpr (makes_tasks<Tasks>) {
      using made = decltype(its.work);
      try {
        ::new (&its.work) made(as_task(tasks_.make(index)));  // in place of an empty one
        its.result = &tasks_.results[index];
        if (!its.try_prepare(task_access::state(its.work), start)) [[unlikely]]
          throw_empty_task();
        return true;
      } catch (...) {
        this->give_up(rest);
        return false;
      }
    } else {
      return visit_task(tasks_, index, [&](auto& work) noexcept {
        return its.try_prepare(task_access::state(work), start);
      });
    }
  }

  // As prepare_child(), for the next of `rest`; one that cannot be awaited has ended.
  [[gnu::always_inline]] bool prepare_next(its_child& its, loop& rest,
                                           std::coroutine_handle<>& start) noexcept {
    this->prepare_context(its);
    if (prepare_child(its, rest, rest.next, start)) [[likely]]
      return true;
    if constexpr (!makes_tasks<Tasks>) pass_over(rest);
    return false;
  }

  // At the end of the child of `its`: moves its result, or notes its end. False if it has failed.
  [[gnu::always_inline]] bool take_end(its_child& its) noexcept {
    if constexpr (makes_tasks<Tasks>) {
      return task_access::state(its.work).move_result(*its.result);
    } else {
      its.end->end_without_continuation();
      return !its.end->failed();
    }
  }

  // The rest of a share after the short way, on which `ended` children have ended.
  share rest_of_share(child_starts& starts, const task_context* outer, std::size_t ended) noexcept {
    return {.starts = starts,
            .queue = starts.queue,
            .outer = outer,
            .is_deep = starts.depth > max_nested_starts,
            .context = &first_,
            .events = 2 * ended};
  }
  // Leaves the short way before the next child: a thread has asked for a part of the loop.
  [[gnu::noinline]] bool continue_share(child_starts& starts, const task_context* outer,
                                        std::size_t ended) noexcept {
    share mine = rest_of_share(starts, outer, ended);
    share_on_request(all_, mine);
    return run_share(all_, mine);
  }
  // After the start of a child that waits, or has failed.
  [[gnu::noinline]] bool end_disturbed_start(child_starts& starts, const task_context* outer,
                                             std::size_t ended, bool forked) noexcept {
    share mine = rest_of_share(starts, outer, ended);
    end_start(all_, mine, forked);
    return run_share(all_, mine);
  }
  // Leaves the short way because another thread has taken the loop.
  [[gnu::noinline]] bool leave_loop(child_starts& starts, const task_context* outer,
                                    std::size_t ended) noexcept {
    share mine = rest_of_share(starts, outer, ended);
    mine.has_loop = false;
    return run_share(all_, mine);
  }

  // The share of a thread that has stolen `rest`, or was left it.
  [[gnu::noinline]] bool run_stolen(loop& rest) noexcept {
    child_starts& starts = starts_here;
    const fork_queue_scope here(starts, *parent_context().where);
    share mine{.starts = starts,
               .queue = starts.queue,
               .outer = starts.innermost,
               .is_deep = starts.depth++ >= max_nested_starts,
               .context = nullptr};
    if (mine.queue != nullptr) this->split(rest, *mine.queue, &run);
    return run_share(rest, mine);
  }

  // Starts the children of `rest`, if this thread has it. True if all have finished; otherwise the
  // join may be gone.
  [[gnu::noinline]] bool run_share(loop& rest, share& mine) noexcept {
    // A child that blocks may run the rest on this thread, and leave a later rest in the queue.
    while (mine.has_loop && rest.next < rest.end) {
      if (mine.context == nullptr) mine.context = try_new_context(rest);
      const std::size_t index = rest.next;
      std::coroutine_handle<> start;
      if (mine.context == nullptr || !prepare_next(*mine.context, rest, start)) [[unlikely]] {
        mine.events += 2 * (rest.next - index);
        continue;
      }
      rest.next = index + 1;
      start_child(start, rest, mine);
      share_on_request(rest, mine);
    }
    mine.starts.innermost = mine.outer;
    --mine.starts.depth;
    if (mine.has_loop) ++mine.events;
    if (mine.context != nullptr && mine.context != &first_) [[unlikely]]
      slab_deallocate(mine.context, sizeof(its_child));
    return this->finish(mine.kept, mine.events, count_of(tasks_));
  }

  // Runs the child `first` to its end or first wait, while other threads may steal `rest` if that
  // is not empty.
  [[gnu::always_inline]] void start_child(std::coroutine_handle<> first, loop& rest,
                                          share& mine) noexcept {
    mine.starts.innermost = mine.context;
    const bool forked = rest.next < rest.end && mine.queue != nullptr && mine.queue->push(rest);
    if (mine.is_deep) [[unlikely]] {
      start_nested(first, *mine.context->where);
    } else {
      resume(first);
    }
    end_start(rest, mine, forked);
  }

  // After the child of `mine.context` was started.
  [[gnu::always_inline]] void end_start(loop& rest, share& mine, bool forked) noexcept {
    mine.events += 2;
    if (mine.starts.innermost != nullptr) [[unlikely]] {
      this->keep_context(mine.kept, *std::exchange(mine.context, nullptr));
      --mine.events;  // the child has not ended
    } else if (!take_end(*mine.context)) [[unlikely]] {
      this->child_failed(*mine.context->end);
      if constexpr (makes_tasks<Tasks>) {  // the task has the exception
        this->keep_context(mine.kept, *std::exchange(mine.context, nullptr));
      }
    }
    mine.has_loop = !forked || mine.queue->take_back(rest);
  }

  // A context for children after one that was kept. Null without memory: gives up `rest`.
  its_child* try_new_context(loop& rest) noexcept {
    try {
      return ::new (slab_allocate(sizeof(its_child))) its_child(*this);
    } catch (...) {
      this->give_up(rest);
      return nullptr;
    }
  }

  void share_on_request(loop& rest, share& mine) noexcept {
    if (mine.has_loop && rest.end - rest.next > 1 && mine.queue != nullptr &&
        mine.queue->take_request())
      this->split(rest, *mine.queue, &run);
  }

  // Notes the error of the next child, whose task cannot be awaited, and passes it over.
  [[gnu::noinline, gnu::cold]] void pass_over(loop& rest) noexcept {
    try {
      throw_empty_task();
    } catch (...) {
      const task_end* const empty = visit_task(tasks_, rest.next, [](auto& task) {
        return task_access::state(task).fail_if_empty(std::current_exception());
      });
      if (empty == nullptr) return this->give_up(rest);
      ++rest.next;
      this->child_failed(*empty);
    }
  }

  bool undisturbed_ = false;
  union {
    its_child first_;  // the context of the first child, and others of that thread
  };
};

}  // namespace gyre::detail

// SPDX-License-Identifier: Apache-2.0
// join_awaiter: the awaiter that starts the tasks of a fork_join.
#pragma once

#include <gyre/base/slab.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/fork_join.hpp>
#include <gyre/task/detail/join_tasks.hpp>
#include <gyre/task/detail/transfer.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/task.hpp>

#include <coroutine>
#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <tuple>
#include <utility>

namespace gyre::detail {

/// The tasks of a join. The first base of the awaiter, so that what every thread reads for each
/// child lies apart from what one thread writes; yet they are destroyed first, by the awaiter.
template <class Tasks>
class join_tasks {
 protected:
  template <class... Sources>
  explicit join_tasks(Sources&&... tasks) : tasks_(std::forward<Sources>(tasks)...) {}
  ~join_tasks() {}

  union {
    Tasks tasks_;
  };
};

/// Whether the loop over the tasks is unrolled.
template <class Tasks>
inline constexpr bool is_pair = false;
template <class First, class Second>
inline constexpr bool is_pair<std::tuple<task<First>, task<Second>>> = true;

/// Awaited, runs `Tasks`: a vector, an array or a tuple of tasks, or made_tasks. Base of awaiters
/// that give the results.
template <class Tasks>
class join_awaiter : protected join_tasks<Tasks>, public fork_join {
  struct its_child : child, child_slot<Tasks> {
    using child::child;
  };

 public:
  template <class... Sources>
  explicit join_awaiter(on_error policy, Sources&&... tasks)
      : join_tasks<Tasks>(std::forward<Sources>(tasks)...), fork_join(&run, policy) {}
  /// Before it is awaited.
  join_awaiter(join_awaiter&& other) noexcept
      : join_awaiter(other.policy(), std::move(other.tasks_)) {}
  join_awaiter& operator=(join_awaiter&&) = delete;

  static constexpr bool executor_affine = true;
  bool await_ready() const noexcept { return count_of(tasks_) == 0; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> parent) {
    this->begin(parent, count_of(tasks_));
    ::new (&first_) its_child(*this);  // without a call
    return !run_share(this->all_, &first_);
  }

 protected:
  // Tasks refer to contexts, and so are destroyed before them.
  ~join_awaiter() {
    if constexpr (makes_tasks<Tasks>) for_each_kept([](auto& work, auto&) { work = {}; });
    std::destroy_at(&tasks_);
    if (has_shared()) [[unlikely]]
      free_shared(&first_, sizeof(its_child));
  }

  using join_tasks<Tasks>::tasks_;

  /// Calls function(task, result) for each child whose result was not moved at its end. The parent,
  /// when all have finished.
  template <class F>
  void for_each_kept(F&& function) {
    for (auto* each = this->kept(); each != nullptr; each = each->next) {
      auto& its = static_cast<its_child&>(*each);
      function(its.work, *its.result);
    }
  }

 private:
  static void run(operation& self) {
    auto& rest = static_cast<loop&>(self);
    auto& join = static_cast<join_awaiter&>(*rest.join);
    const bool has_ended = rest.next == rest.end;
    if (has_ended || join.run_share(rest, nullptr)) resume(join.parent());
  }

  // One thread's share of a loop.
  struct share {
    fork_queue* const queue;
    child_starts& starts;
    const bool is_deep;
    its_child* context;  // of the next child, if not null
    std::size_t events = 0;
    bool has_loop = true;
  };

  // The coroutine of `work`, the next child of `rest`. Null, and the child has ended, if the task
  // cannot be awaited; null also when no more children can be started.
  template <class T>
  [[gnu::always_inline]] std::coroutine_handle<> take_next(task<T>& work, loop& rest,
                                                           share& mine) noexcept {
    if (!has_context(rest, mine)) [[unlikely]]
      return nullptr;
    this->prepare_context(*mine.context);
    auto& state = task_access::state(work);
    if (!state.not_started()) [[unlikely]] {
      pass_over(rest);
      return nullptr;
    }
    ++rest.next;
    return mine.context->prepare(state);
  }

  [[gnu::always_inline]] bool has_context(loop& rest, share& mine) noexcept {
    if (mine.context == nullptr) [[unlikely]]
      mine.context = try_new_context(rest);
    return mine.context != nullptr;
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

  // As take_next(), for a task that is made now.
  [[gnu::always_inline]] std::coroutine_handle<> make_next(loop& rest, share& mine) noexcept {
    if (!has_context(rest, mine)) [[unlikely]]
      return nullptr;
    this->prepare_context(*mine.context);
    its_child& its = *mine.context;
    using made = decltype(its.work);
    try {
      ::new (&its.work) made(as_task(tasks_.make(rest.next)));  // in place of an empty one
      its.result = &tasks_.results[rest.next];
      const std::coroutine_handle<> first = its.prepare(task_access::state(its.work));
      ++rest.next;
      return first;
    } catch (...) {
      this->give_up(rest);
      return nullptr;
    }
  }

  // Runs the child `first`, which take_next() has given, to its end or first wait, while other
  // threads may steal `rest` if that is not empty.
  [[gnu::always_inline]] void start_child(std::coroutine_handle<> first, loop& rest, bool is_last,
                                          share& mine, kept_contexts& kept) noexcept {
    mine.starts.innermost = mine.context;
    const bool forked = !is_last && mine.queue != nullptr && mine.queue->push(rest);
    if (mine.is_deep) [[unlikely]] {
      start_nested(first, *mine.context->where);
    } else {
      resume(first);
    }
    mine.events += 2;
    if (mine.starts.innermost != nullptr) [[unlikely]] {
      this->keep_context(kept, *std::exchange(mine.context, nullptr));
      --mine.events;  // the child has not ended
    } else {
      end_child(mine, kept);
    }
    mine.has_loop = !forked || mine.queue->take_back(rest);
  }

  // The child that was started last has ended.
  [[gnu::always_inline]] void end_child(share& mine, kept_contexts& kept) noexcept {
    its_child& its = *mine.context;
    if constexpr (makes_tasks<Tasks>) {
      if (task_access::state(its.work).move_result(*its.result)) [[likely]]
        return;
      this->child_failed(*its.end);
      this->keep_context(kept, its);
      mine.context = nullptr;
    } else {
      its.end->end_without_continuation();
      if (its.end->failed()) [[unlikely]]
        this->child_failed(*its.end);
    }
  }

  // Both children of a pair, unless the loop goes another way.
  [[gnu::always_inline]] void run_pair(loop& rest, share& mine, kept_contexts& kept) noexcept {
    const std::coroutine_handle<> first = take_next(std::get<0>(tasks_), rest, mine);
    if (!first) [[unlikely]] {
      mine.events += 2 * rest.next;
      return;
    }
    start_child(first, rest, false, mine, kept);
    if (!mine.has_loop || rest.next != 1) [[unlikely]]
      return;
    const std::coroutine_handle<> second = take_next(std::get<1>(tasks_), rest, mine);
    if (!second) [[unlikely]] {
      mine.events += 2 * (rest.next - 1);
      return;
    }
    start_child(second, rest, true, mine, kept);
  }

  void share_on_request(loop& rest, share& mine) noexcept {
    if (mine.has_loop && rest.end - rest.next > 1 && mine.queue != nullptr &&
        mine.queue->take_request())
      this->split(rest, *mine.queue, &run);
  }

  // The next child's task cannot be awaited.
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

  // This thread's share of `rest`, whose first child may use `context`. True if all have finished;
  // otherwise the join may be gone. Not inlined into a coroutine, because of the thread-local.
  [[gnu::noinline]] bool run_share(loop& rest, its_child* context) noexcept {
    child_starts& starts = starts_here;
    share mine{.queue = this->parent_context().where->fork_queue_here(),
               .starts = starts,
               .is_deep = starts.depth++ >= most_nested_starts,
               .context = context};
    const task_context* const outer = starts.innermost;
    kept_contexts kept;
    if (context == nullptr) {
      // The loop was stolen, or is what was left of it.
      if (mine.queue != nullptr) this->split(rest, *mine.queue, &run);
    } else if constexpr (is_pair<Tasks>) {
      run_pair(rest, mine, kept);
    }
    // A child that blocks may run the rest on this thread, and leave a later rest in the queue.
    while (mine.has_loop && rest.next < rest.end) {
      const std::size_t before = rest.next;
      std::coroutine_handle<> first;
      if constexpr (makes_tasks<Tasks>) {
        first = make_next(rest, mine);
      } else {
        first = visit_task(tasks_, before,
                           [&](auto& work) { return this->take_next(work, rest, mine); });
      }
      if (!first) [[unlikely]] {
        mine.events += 2 * (rest.next - before);
        continue;
      }
      start_child(first, rest, rest.next >= rest.end, mine, kept);
      share_on_request(rest, mine);
    }
    starts.innermost = outer;
    --starts.depth;
    if (mine.has_loop) ++mine.events;
    if (mine.context != nullptr && mine.context != &first_) [[unlikely]]
      slab_deallocate(mine.context, sizeof(its_child));
    return this->finish(kept, mine.events, count_of(tasks_));
  }

  union {
    its_child first_;  // the context of the first child, and others of that thread
  };
};

}  // namespace gyre::detail

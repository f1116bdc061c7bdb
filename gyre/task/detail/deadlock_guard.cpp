// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/deadlock_guard.hpp>

#include <gyre/task/async_backtrace.hpp>
#include <gyre/task/detail/blocking_executor.hpp>
#include <gyre/task/detail/child_set.hpp>
#include <gyre/task/detail/never_resume.hpp>
#include <gyre/task/detail/task_state.hpp>
#include <gyre/task/detail/transfer.hpp>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace gyre::detail {
namespace {

// Appends the chain of awaits from `innermost` outwards; of a very long chain only its two ends.
void append_frames(std::string& text, const promise_base& innermost, const std::string& indent) {
  constexpr std::size_t max_shown_of_an_end = 50;
  std::size_t length = 0;
  for (auto* frame = &innermost; frame != nullptr; frame = frame->trace.awaited_by.get()) ++length;
  const std::size_t left_out =
      length > 2 * max_shown_of_an_end ? length - 2 * max_shown_of_an_end : 0;

  std::size_t index = 0;
  for (auto* frame = &innermost; frame != nullptr; frame = frame->trace.awaited_by.get(), ++index) {
    if (left_out > 0 && index == max_shown_of_an_end) {
      text += indent + "  and " + std::to_string(left_out) + " more awaits, then\n";
    }
    const bool is_left_out = index >= max_shown_of_an_end && index < max_shown_of_an_end + left_out;
    if (!is_left_out) append_frame(text, frame->trace.place.get(), indent);
  }
}

// Destroys the suspended coroutine of `context`, as if it had been cancelled. `context` may have
// been destroyed when this function returns. Returns whether it resumed another coroutine.
bool cancel(task_context& context) {
  try {
    throw_cancelled(context);
  } catch (...) {
    announce_end(context);
    context.trace.destroy.get()(*context.trace.outermost.get());
  }
  context.trace.innermost.set(nullptr);
  const std::coroutine_handle<> continuation = context.finished(context);
  if (continuation.address() == std::noop_coroutine().address()) return false;
  resume(continuation);
  return true;
}

// The tasks of a deadlocked sync_wait(): a snapshot of a task and the tree of its concurrent
// children. Requires that the program has one thread and that no task of the tree runs.
class live_tasks {
 public:
  // Collects the tasks below `root`. Complexity: O(tasks). Throws std::bad_alloc.
  explicit live_tasks(task_context& root) {
    std::vector<live_task> pending_tasks{{&root, 0}};
    std::vector<task_context*> children;
    // A shared task may be the child of several tasks.
    std::unordered_set<const task_context*> visited_contexts;
    while (!pending_tasks.empty()) {
      const live_task task_entry = pending_tasks.back();
      pending_tasks.pop_back();
      if (!visited_contexts.insert(task_entry.context).second) continue;
      tasks_.push_back(task_entry);
      children.clear();
      for (child_set* set = task_entry.context->trace.child_sets.get(); set != nullptr;
           set = set->outer()) {
        set->append_children(children);
      }
      std::erase_if(children, [](const task_context* child) {
        return child->trace.innermost.get() == nullptr;
      });
      std::ranges::transform(
          children.rbegin(), children.rend(), std::back_inserter(pending_tasks),
          [&](task_context* child) { return live_task(child, task_entry.depth + 1); });
    }
  }

  std::size_t size() const noexcept { return tasks_.size(); }

  // Returns the async_backtrace of each task, each below the task that waits for it. Limited to the
  // first 100 tasks, and to the two ends of a long chain.
  std::string to_string() const {
    constexpr std::size_t max_shown = 100;
    std::string text;
    const std::size_t shown_count = std::min(tasks_.size(), max_shown);
    for (std::size_t i = 0; i < shown_count; ++i) append(text, tasks_[i]);
    if (shown_count < tasks_.size()) {
      text += "  and " + std::to_string(tasks_.size() - shown_count) + " more tasks\n";
    }
    return text;
  }

  // Destroys the tasks without children that run on `target` and cannot be in another executor's
  // queue, as if they were cancelled. Returns early when a coroutine was woken, since the snapshot
  // is then out of date. Returns false if there was no such task.
  bool cancel_leaves(const blocking_executor& target) const {
    bool has_cancelled = false;
    for (std::size_t i = tasks_.size(); i-- > 0;) {
      task_context& context = *tasks_[i].context;
      const bool may_be_queued = context.where != &target || context.trace.holder.get() != nullptr;
      if (!is_leaf(i) || may_be_queued) continue;
      has_cancelled = true;
      const bool has_resumed = cancel(context);
      if (has_resumed || !target.is_idle()) break;
    }
    return has_cancelled;
  }
  // Makes executors skip the coroutines of all tasks, which must then not be destroyed. Throws
  // std::bad_alloc.
  void never_resume() const {
    for (const live_task& task : tasks_) {
      promise_base& innermost = *task.context->trace.innermost.get();
      detail::never_resume(std::coroutine_handle<promise_base>::from_promise(innermost));
    }
  }

 private:
  struct live_task {
    task_context* context;
    std::size_t depth;  // the number of parents above the task
  };
  static void append(std::string& text, const live_task& task) {
    const std::string indent(2 * task.depth, ' ');
    const promise_base* frame = task.context->trace.innermost.get();
    if (task.depth > 0) {
      text += indent + "task";
      const char* const name = task.context->trace.name.get();
      if (name != nullptr) text.append(" \"").append(name).append("\"");
      const bool has_begun = frame->trace.place.get().line() != 0;
      if (!has_begun) {
        text += ", which has not begun\n";
        return;
      }
      text += ":\n";
    }
    append_frames(text, *frame, indent);
  }
  bool is_leaf(std::size_t index) const noexcept {
    return index + 1 == tasks_.size() || tasks_[index + 1].depth <= tasks_[index].depth;
  }

  std::vector<live_task> tasks_;  // depth first: each task after its parent
};

// Cancels the remaining tasks one by one, since the destruction of a task may wake others, for
// example by unlocking a mutex. Returns false if some tasks have not ended.
bool cancel_remaining(task_context& root, blocking_executor& executor, const bool& is_done) {
  // The rounds are limited, because a task may repeat the cancelled operation for ever.
  std::size_t rounds = 2 * live_tasks(root).size();
  while (rounds-- > 0 && live_tasks(root).cancel_leaves(executor)) {
    if (executor.run_until(is_done)) return true;
  }
  return false;
}

}  // namespace

inplace_stop_token reporting_deadlock_guard::follow(inplace_stop_token outer,
                                                    task_context& context) {
  if (outer.stop_possible()) {
    on_stop_.emplace(outer, request_stop_of{&end_all_});
    context.announces_end = true;
  }
  return end_all_.get_token();
}

void reporting_deadlock_guard::end(task_context& root, task_end& work, blocking_executor& executor,
                                   const bool& is_done) {
  const std::string report =
      "gyre: sync_wait() would wait for ever: all its coroutines wait, and the program has no "
      "other thread to wake one:\n" +
      live_tasks(root).to_string();
  std::fputs(report.c_str(), stderr);
  end_all_.request_stop();
  const bool has_ended = executor.run_until(is_done) || cancel_remaining(root, executor, is_done);
  if (!has_ended) {
    has_suspended_ = true;
    work.abandon();
    live_tasks(root).never_resume();
  }
  throw_deadlock(report);
}

}  // namespace gyre::detail

// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/live_tasks.hpp>

#include <gyre/task/async_backtrace.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/child_set.hpp>
#include <gyre/task/detail/transfer.hpp>

#include <algorithm>
#include <coroutine>
#include <iterator>
#include <unordered_set>

namespace gyre::detail {

#if GYRE_ASYNC_BACKTRACE

namespace {

// Only the ends of a very long chain.
void append_frames(std::string& text, const promise_base& innermost, const std::string& indent) {
  constexpr std::size_t most_shown_of_an_end = 50;
  std::size_t length = 0;
  for (auto* frame = &innermost; frame != nullptr; frame = frame->awaited_by) ++length;
  const std::size_t left_out =
      length > 2 * most_shown_of_an_end ? length - 2 * most_shown_of_an_end : 0;

  std::size_t index = 0;
  for (auto* frame = &innermost; frame != nullptr; frame = frame->awaited_by, ++index) {
    if (left_out > 0 && index == most_shown_of_an_end) {
      text += indent + "  and " + std::to_string(left_out) + " more awaits, then\n";
    }
    const bool is_left_out =
        index >= most_shown_of_an_end && index < most_shown_of_an_end + left_out;
    if (!is_left_out) append_frame(text, frame->where, indent);
  }
}

// Ends a suspended task, which may be gone then. Whether that has resumed another coroutine.
bool cancel(task_context& context) {
  try {
    throw_cancelled(context);
  } catch (...) {
    context.destroy(*context.outermost);
  }
  context.innermost = nullptr;
  const std::coroutine_handle<> next = context.finished(context);
  if (next.address() == std::noop_coroutine().address()) return false;
  resume(next);
  return true;
}

}  // namespace

live_tasks::live_tasks(task_context& root) {
  std::vector<live_task> open{{&root, 0}};
  std::vector<task_context*> children;
  std::unordered_set<const task_context*> seen;  // shared tasks may be awaited more than once
  while (!open.empty()) {
    const live_task next = open.back();
    open.pop_back();
    if (!seen.insert(next.context).second) continue;
    tasks_.push_back(next);
    children.clear();
    for (child_set* set = next.context->child_sets; set != nullptr; set = set->outer()) {
      set->append_children(children);
    }
    std::erase_if(children, [](const task_context* child) { return child->innermost == nullptr; });
    std::ranges::transform(children.rbegin(), children.rend(), std::back_inserter(open),
                           [&](task_context* child) { return live_task(child, next.depth + 1); });
  }
}

void live_tasks::append(std::string& text, const live_task& task) {
  const std::string indent(2 * task.depth, ' ');
  const promise_base* frame = task.context->innermost;
  if (task.depth > 0) {
    text += indent + "task";
    if (task.context->name != nullptr) text += " \"" + std::string(task.context->name) + '"';
    const bool has_begun = frame->where.line() != 0;
    if (!has_begun) {
      text += ", which has not begun\n";
      return;
    }
    text += ":\n";
  }
  append_frames(text, *frame, indent);
}

std::string live_tasks::to_string() const {
  constexpr std::size_t most_shown = 100;
  std::string text;
  const std::size_t shown = std::min(tasks_.size(), most_shown);
  for (std::size_t i = 0; i < shown; ++i) append(text, tasks_[i]);
  if (shown < tasks_.size()) {
    text += "  and " + std::to_string(tasks_.size() - shown) + " more tasks\n";
  }
  return text;
}

bool live_tasks::cancel_leaves(const blocking_executor& where) const {
  bool found = false;
  for (std::size_t i = tasks_.size(); i-- > 0;) {
    task_context& context = *tasks_[i].context;
    const bool may_be_queued = context.where != &where || context.held_by != nullptr;
    if (!is_leaf(i) || may_be_queued) continue;
    found = true;
    const bool has_resumed = cancel(context);
    if (has_resumed || !where.is_idle()) break;
  }
  return found;
}

void live_tasks::never_resume() const {
  for (const live_task& task : tasks_) {
    promise_base& innermost = *task.context->innermost;
    detail::never_resume(std::coroutine_handle<promise_base>::from_promise(innermost));
  }
}

#endif

}  // namespace gyre::detail

// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/forked_child.hpp>

#include <gyre/task/detail/task_state.hpp>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace gyre::detail {

forked_child::forked_child(const forking_coroutine& origin) noexcept
    : operation(&run), parent_context_(*origin.context), stop_(parent_context_.stop) {
  fork_context(*this, parent_context_);
  task_context::stop = stop_.get_token();
  finished = &end;
  trace.awaited_by.set(origin.awaits_child.get());
  attach(origin.lists_children);
}

void forked_child::start(std::coroutine_handle<> first) noexcept {
  first_ = first;
  if (fork_queue* const queue = where->fork_queue_here()) {
    queue_ = queue;
    if (queue->push(*this)) return;
    queue_ = nullptr;
  }
  start_nested(first, *where);
}

// Called at most twice: to start the child on the thread that has stolen it, and to resume the
// parent on the parent's executor.
void forked_child::run(operation& self) noexcept {
  auto& child = static_cast<forked_child&>(self);
  resume(child.has_ended() ? child.parent_ : child.first_);
}

std::coroutine_handle<> forked_child::wait_for_end(std::coroutine_handle<> coroutine,
                                                   const task_context& waiter) {
  if (parent_) [[unlikely]]
    throw std::logic_error("gyre::forked: awaited while another coroutine waits for it");
  parent_ = coroutine;
  parent_executor_ = waiter.where;
  if (!stop_.follows(waiter.stop)) [[unlikely]]
    stop_by_waiter_.emplace(waiter.stop, request_stop_of{&stop_});
  // Only this thread's own queue can return the child, and the parent may have moved to another
  // thread.
  if (queue_ != nullptr && parent_executor_->fork_queue_here() == queue_ &&
      queue_->take_back(*this)) {
    queue_ = nullptr;
    finished = &end_taken_back;
    return first_;
  }
  return core_.leave(parent_before_wait) ? coroutine : std::noop_coroutine();
}

// Called when the child ends, on the thread of its end. Unless the parent waits, the child may be
// destroyed as soon as it has left the wait_core.
std::coroutine_handle<> forked_child::end(task_context& self) noexcept {
  auto& child = static_cast<forked_child&>(self);
  const executor* const end_executor = child.where;
  if (!child.core_.leave(running_child)) return std::noop_coroutine();
  return child.parent_after_end(end_executor);
}

// Called when a child ends that the parent has taken back. No other thread can have touched the
// child.
std::coroutine_handle<> forked_child::end_taken_back(task_context& self) noexcept {
  auto& child = static_cast<forked_child&>(self);
  child.core_.begin(0);
  return child.parent_after_end(child.where);
}

std::coroutine_handle<> forked_child::parent_after_end(const executor* end_executor) noexcept {
  if (end_executor == parent_executor_) return parent_;
  parent_executor_->post(*this);
  return std::noop_coroutine();
}

void forked_child::abort_running() noexcept {
  std::fputs(
      "gyre: the handle of a fork() was destroyed before its child had ended; await it, "
      "or its join(), on every path\n",
      stderr);
  std::abort();
}

}  // namespace gyre::detail

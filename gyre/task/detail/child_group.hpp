// SPDX-License-Identifier: Apache-2.0
// child_group: the concurrent children of a coroutine that awaits their ends one by one.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/child_set.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <cassert>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace gyre::detail {

/// The concurrent children of one coroutine, which awaits the end of each child. Ended children
/// wait in a lock-free stack, since the parent handles every end on its own executor.
///
/// Thread-safety: the parent alone calls the members; children end on any thread.
/// Lifetime: a local variable of the parent, declared before the children.
class child_group final : resumption, public child_set {
 public:
  /// The context of a child. Must not move from start() until wait_for_end() has returned it.
  struct child : task_context {
    child_group* group = nullptr;
    child* next = nullptr;
    bool runs = false;
    [[no_unique_address]] reused_contexts<child>::link listed;
  };

  /// Returns an awaitable that makes the awaiting coroutine the parent. Awaited before any other
  /// member is used.
  auto adopt() noexcept {
    return suspension([this](auto parent) noexcept {
      fork_context(inherited_context_, parent);
      attach(parent);
      inherited_context_.stop = stop_.emplace(inherited_context_.stop).get_token();
      inherited_context_.finished = &on_child_end;
      parent_ = &context_of(parent);
      return gives_way(*parent_, parent);
    });
  }
  /// Runs `work` in `context` until its first wait. If `work` is empty, throws std::logic_error and
  /// starts no child.
  template <class T>
  void start(child& context, task<T>& work) {
    if (!work.valid()) throw_empty_task();
    static_cast<task_context&>(context) = inherited_context_;
    context.group = this;
    context.runs = true;
    listed_children_.add(context);
    ++running_count_;
    task_access::state(work).start_child(context);
  }
  /// Returns an awaitable of the next child that has ended, in the order of the ends. Requires
  /// running() > 0.
  auto wait_for_end() noexcept { return end_awaiter(*this); }

  /// Returns whether wait_for_end() would return at once.
  bool has_ended() noexcept { return ended_children_ != nullptr || take_ended_children(); }
  /// Returns the number of children that were started and not yet returned by wait_for_end().
  std::size_t running() const noexcept { return running_count_; }

  void append_children(std::vector<task_context*>& contexts) {
    listed_children_.append_to(contexts);
  }

  /// Asks the children to stop.
  void request_stop() noexcept { stop_->request_stop(); }
  /// Returns whether the children or the parent were asked to stop.
  bool stop_requested() const noexcept { return stop_->stop_requested(); }

  /// Returns the context of the parent. Requires adopt().
  const task_context& parent() const noexcept { return *parent_; }

  /// Returns whether the parent may destroy the child: false while the child runs or waits on
  /// another executor than the parent's.
  bool may_destroy(const child& context) const noexcept {
    return !context.runs || context.where == inherited_context_.where;
  }

 private:
  struct end_awaiter {
    explicit end_awaiter(child_group& owner) noexcept : group(owner) {}
    static constexpr bool executor_affine = true;
    bool await_ready() const noexcept { return group.has_ended(); }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> parent) const noexcept {
      group.waiting = parent;
      group.parent_executor_ = context_of(parent).where;
      return group.begin_wait();
    }
    child& await_resume() const noexcept { return group.pop_ended_child(); }
    child_group& group;
  };

  static std::coroutine_handle<> on_child_end(task_context& context) noexcept;
  bool take_ended_children() noexcept;
  bool begin_wait() noexcept;
  child& pop_ended_child() noexcept;

  // Marks a parent that waits in `newest_`. No child has this address.
  static constexpr std::uintptr_t parent_waits = 1;

  task_context inherited_context_;
  const task_context* parent_ = nullptr;
  std::optional<linked_stop_source> stop_;
  std::size_t running_count_ = 0;
  child* ended_children_ = nullptr;  // children taken from `newest_`, the oldest first
  executor* parent_executor_ = nullptr;
  atomic<std::uintptr_t> newest_{0};  // the child that ended last, 0 or parent_waits
  // The contexts of all children ever started.
  [[no_unique_address]] reused_contexts<child> listed_children_;
};

/// A child whose work is a task.
template <class T>
struct child_task : child_group::child {
  explicit child_task(child_group& owner, task<T>&& child_work = {}) noexcept
      : work(std::move(child_work)) {
    group = &owner;
  }
  child_task(child_task&&) = default;
  child_task& operator=(child_task&&) = delete;
  ~child_task() {
    assert(group->may_destroy(*this) && "a child was dropped while it was on another executor");
  }

  void start() { group->start(*this, work); }

  task<T> work;
};

}  // namespace gyre::detail

// SPDX-License-Identifier: Apache-2.0
// child_group: children of a coroutine that reports their ends one by one.
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

/// The concurrent children of one coroutine, whose ends it awaits one by one. One atomic word, the
/// stack of ended children, connects them, since the parent handles an end on its own executor.
///
/// Thread-safety: all members belong to the parent; children end on any thread.
/// Lifetime: a local of the parent, declared before the children.
class child_group final : resumption, public child_set {
 public:
  /// The context of a child; stays in place from start() until wait_for_end() has returned it.
  struct child : task_context {
    child_group* group = nullptr;
    child* next = nullptr;
    bool runs = false;
    [[no_unique_address]] reused_contexts<child>::link listed;
  };

  /// Awaited before anything else: makes the coroutine the parent.
  auto adopt() noexcept {
    return suspension([this](auto parent) noexcept {
      fork_context(inherited_, parent);
      attach(parent);
      inherited_.stop = stop_.emplace(inherited_.stop).get_token();
      inherited_.finished = &on_child_end;
      parent_ = &context_of(parent);
      return gives_way(*parent_, parent);
    });
  }
  /// Runs `work` to its first wait. Throws if it is empty; there is no child then.
  template <class T>
  void start(child& context, task<T>& work) {
    if (!work.valid()) throw_empty_task();
    static_cast<task_context&>(context) = inherited_;
    context.group = this;
    context.runs = true;
    listed_.add(context);
    ++running_;
    task_access::state(work).start_child(context);
  }
  /// Awaited while a child runs: gives each child once after its end, in the order of the ends.
  auto wait_for_end() noexcept { return end_awaiter(*this); }

  /// Whether wait_for_end() would return at once.
  bool has_ended() noexcept { return ended_ != nullptr || take_ended_children(); }
  /// The number of children that wait_for_end() has not returned.
  std::size_t running() const noexcept { return running_; }

  void append_children(std::vector<task_context*>& contexts) { listed_.append_to(contexts); }

  /// Asks the children to stop.
  void request_stop() noexcept { stop_->request_stop(); }
  /// Whether the children or the parent were asked to stop.
  bool stop_requested() const noexcept { return stop_->stop_requested(); }

  /// The context of the parent. After adopt().
  const task_context& parent() const noexcept { return *parent_; }

  /// False if the child runs, or waits, on another executor than the parent's.
  bool may_destroy(const child& context) const noexcept {
    return !context.runs || context.where == inherited_.where;
  }

 private:
  struct end_awaiter {
    explicit end_awaiter(child_group& owner) noexcept : group(owner) {}
    static constexpr bool executor_affine = true;
    bool await_ready() const noexcept { return group.has_ended(); }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> parent) const noexcept {
      group.waiting = parent;
      group.home_ = context_of(parent).where;
      return group.begin_wait();
    }
    child& await_resume() const noexcept { return group.pop_ended_child(); }
    child_group& group;
  };

  static std::coroutine_handle<> on_child_end(task_context& finished) noexcept;
  bool take_ended_children() noexcept;
  bool begin_wait() noexcept;
  child& pop_ended_child() noexcept;

  // No child has this address.
  static constexpr std::uintptr_t parent_waits = 1;

  task_context inherited_;
  const task_context* parent_ = nullptr;
  std::optional<linked_stop_source> stop_;
  std::size_t running_ = 0;
  child* ended_ = nullptr;  // the oldest first
  executor* home_ = nullptr;
  atomic<std::uintptr_t> newest_{0};  // the child that ended last, or parent_waits
  [[no_unique_address]] reused_contexts<child> listed_;  // all that were ever started
};

/// A task as a child.
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

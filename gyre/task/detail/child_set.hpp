// SPDX-License-Identifier: Apache-2.0
// child_set: the children of a coroutine, listed in its context for the deadlock report of
// sync_wait(). Empty where backtraces are off (async_backtrace.hpp).
#pragma once

#include <gyre/task/context.hpp>

#include <concepts>
#include <coroutine>
#include <utility>
#include <vector>

namespace gyre::detail {

#if GYRE_ASYNC_BACKTRACE

/// Base of holders of a coroutine's children: fork_join, forked_child, child_group, scope. Listed
/// once attached.
///
/// Thread-safety: attached and destroyed by the parent; all else needs a program with one thread.
/// Lifetime: the parent's context outlives the set.
class child_set {
 public:
  child_set& operator=(child_set&&) = delete;

  /// Appends the contexts of the children, the oldest first; some may have ended.
  virtual void append_children(std::vector<task_context*>& to) = 0;
  /// The set that the same context listed before this one; null if there is none.
  child_set* outer() const noexcept { return outer_; }

 protected:
  child_set() noexcept = default;
  ~child_set() {
    if (parent_ == nullptr) return;
    child_set** each = &parent_->child_sets;
    while (*each != this) each = &(*each)->outer_;
    *each = outer_;
  }

  /// Lists the set with the coroutine `parent`, once.
  template <class Promise>
  void attach(std::coroutine_handle<Promise> parent) noexcept {
    if constexpr (has_context<Promise>) attach(context_of(parent));
  }
  void attach(task_context& parent) noexcept {
    parent_ = &parent;
    outer_ = std::exchange(parent.child_sets, this);
  }

 private:
  task_context* parent_ = nullptr;
  child_set* outer_ = nullptr;
};

#else

class child_set {
 protected:
  template <class Promise>
  static constexpr void attach(std::coroutine_handle<Promise>) noexcept {}
};

#endif

/// The coroutine that forks, without the type of its promise.
struct forking_coroutine {
  template <class Promise>
  explicit forking_coroutine(std::coroutine_handle<Promise> parent) noexcept
      : context(&context_of(parent)) {
#if GYRE_ASYNC_BACKTRACE
    if constexpr (has_context<Promise>) lists_children = &context_of(parent);
    if constexpr (std::derived_from<Promise, promise_base>) awaits_child = &parent.promise();
#endif
  }
  forking_coroutine() noexcept = default;

  const task_context* context = nullptr;
#if GYRE_ASYNC_BACKTRACE
  task_context* lists_children = nullptr;
  const promise_base* awaits_child = nullptr;
#endif
};

}  // namespace gyre::detail

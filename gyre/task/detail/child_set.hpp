// SPDX-License-Identifier: Apache-2.0
// child_set: the children of a coroutine, listed in the coroutine's context for the deadlock report
// of sync_wait(). Empty where backtraces are off (async_backtrace.hpp).
#pragma once

#include <gyre/task/context.hpp>

#include <algorithm>
#include <coroutine>
#include <cstddef>
#include <utility>
#include <vector>

namespace gyre::detail {

/// Base of the classes that hold a coroutine's children: fork_join, forked_child, child_group,
/// scope. A set is listed after attach(). The alias child_set sets `IsListed` where backtraces are
/// on.
///
/// Thread-safety: the parent attaches and destroys the set. The other members require that the
/// program has only one thread.
/// Lifetime: the parent's context must outlive the set.
template <bool IsListed>
class basic_child_set {
 public:
  basic_child_set& operator=(basic_child_set&&) = delete;

  /// Appends the contexts of the children, the oldest first; some may have ended. A derived class
  /// defines this function without `override`, as there is nothing to override where backtraces are
  /// off.
  virtual void append_children(std::vector<task_context*>& contexts) = 0;
  /// Returns the set that the context listed before this one; null if there is none.
  basic_child_set* outer() const noexcept { return outer_; }

 protected:
  basic_child_set() noexcept = default;
  ~basic_child_set() {
    if (parent_ == nullptr) return;
    basic_child_set* next_set = parent_->trace.child_sets.get();
    if (next_set == this) {
      parent_->trace.child_sets.set(outer_);
      return;
    }
    while (next_set->outer_ != this) next_set = next_set->outer_;
    next_set->outer_ = outer_;
  }

  /// Lists the set in the context of the coroutine `parent`. Called once.
  template <class Promise>
  void attach(std::coroutine_handle<Promise> parent) noexcept {
    if constexpr (has_context<Promise>) list_in(context_of(parent));
  }
  void attach(traced_field<task_context*> parent) noexcept {
    if (parent.get() != nullptr) list_in(*parent.get());
  }

 private:
  void list_in(task_context& parent) noexcept {
    parent_ = &parent;
    outer_ = parent.trace.child_sets.get();
    parent.trace.child_sets.set(this);
  }

  task_context* parent_ = nullptr;
  basic_child_set* outer_ = nullptr;
};

template <>
class basic_child_set<false> {
 public:
  static constexpr void append_children(std::vector<task_context*>&) noexcept {}
  static constexpr basic_child_set* outer() noexcept { return nullptr; }

 protected:
  template <class Promise>
  static constexpr void attach(std::coroutine_handle<Promise>) noexcept {}
  static constexpr void attach(traced_field<task_context*>) noexcept {}
};

/// A list of contexts, each of which stays in place until its owner is destroyed and may serve
/// several children in turn. `Child` has a member `listed` of the class `link`.
template <class Child, bool IsListed = records_backtraces>
class reused_contexts {
 public:
  struct link {
    Child* older = nullptr;
    bool is_listed = false;
  };

  void add(Child& child) noexcept {
    if (!std::exchange(child.listed.is_listed, true)) {
      child.listed.older = std::exchange(newest_, &child);
    }
  }
  /// Appends the contexts to `contexts`, the oldest first.
  void append_to(std::vector<task_context*>& contexts) const {
    const auto old_size = static_cast<std::ptrdiff_t>(contexts.size());
    for (Child* child = newest_; child != nullptr; child = child->listed.older) {
      contexts.push_back(child);
    }
    std::reverse(contexts.begin() + old_size, contexts.end());
  }

 private:
  Child* newest_ = nullptr;
};

template <class Child>
class reused_contexts<Child, false> {
 public:
  struct link {};
  static constexpr void add(Child&) noexcept {}
  static constexpr void append_to(std::vector<task_context*>&) noexcept {}
};

/// A handle of the coroutine that forks, independent of the type of its promise.
struct forking_coroutine {
  template <class Promise>
  explicit forking_coroutine(std::coroutine_handle<Promise> parent) noexcept
      : context(&context_of(parent)) {
    if constexpr (has_context<Promise>) lists_children.set(&context_of(parent));
    awaits_child.set(promise_of(parent));
  }
  forking_coroutine() noexcept = default;

  const task_context* context = nullptr;
  [[no_unique_address]] traced_field<task_context*> lists_children;
  [[no_unique_address]] traced_field<promise_base*> awaits_child;
};

}  // namespace gyre::detail

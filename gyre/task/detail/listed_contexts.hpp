// SPDX-License-Identifier: Apache-2.0
// listed_contexts: the contexts of a scope's tasks, for backtraces. Empty where backtraces are off.
#pragma once

#include <gyre/base/intrusive_list.hpp>
#include <gyre/task/context.hpp>

#include <mutex>

namespace gyre::detail {

/// A list of contexts in the order of their starts, which are removed in any order. Protected by a
/// mutex of the owner.
template <bool IsListed>
class basic_listed_contexts {
 public:
  struct link : intrusive_list_node {
    task_context* context = nullptr;
  };

  void add(link& entry, task_context& context, std::mutex& mutex) {
    entry.context = &context;
    const std::lock_guard lock(mutex);
    entries_.push_back(entry);
  }
  static void remove(link& entry, std::mutex& mutex) noexcept {
    const std::lock_guard lock(mutex);
    entry.unlink();
  }
  /// Calls `visit` with each context. Requires the owner's mutex, or that the program has one
  /// thread.
  template <class Visitor>
  void for_each(Visitor&& visit) {
    for (link& entry : entries_) visit(*entry.context);
  }

 private:
  intrusive_list<link> entries_;
};

template <>
class basic_listed_contexts<false> {
 public:
  struct link {};
  static constexpr void add(link&, task_context&, std::mutex&) noexcept {}
  static constexpr void remove(link&, std::mutex&) noexcept {}
  template <class Visitor>
  static constexpr void for_each(Visitor&&) noexcept {}
};

using listed_contexts = basic_listed_contexts<records_backtraces>;

}  // namespace gyre::detail

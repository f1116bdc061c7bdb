// SPDX-License-Identifier: Apache-2.0
// overflow_queue: the operations that a loop's inbox had no memory for.
#pragma once

#include <gyre/base/intrusive_queue.hpp>
#include <gyre/base/intrusive_stack.hpp>
#include <gyre/base/operation.hpp>

namespace gyre::detail {

/// A queue of operations from any thread to one loop, which allocates nothing. Any thread calls
/// push(); the other members belong to the loop's thread.
class overflow_queue {
 public:
  void push(operation& op) noexcept { new_operations_.push(op); }

  bool empty() const noexcept { return drained_operations_.empty() && new_operations_.empty(); }
  /// Makes the pushed operations available to pop(), after the operations that were drained before.
  void drain() noexcept {
    auto batch = new_operations_.pop_all();
    drained_operations_.splice_back(batch);
  }
  /// Removes and returns the oldest drained operation; returns null if there is none.
  operation* pop() noexcept { return drained_operations_.pop_front(); }
  /// Drops all operations without running them.
  void clear() noexcept {
    static_cast<void>(new_operations_.pop_all());
    drained_operations_ = {};
  }

 private:
  atomic_intrusive_stack<operation> new_operations_;
  intrusive_queue<operation> drained_operations_;
};

}  // namespace gyre::detail

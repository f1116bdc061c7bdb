// SPDX-License-Identifier: Apache-2.0
// droppable_operation: an operation that a pool may discard instead of running it (purge(),
// drop_oldest, a stop whose grace has passed); run_or_discard: a callable that runs an operation
// or, when it is destroyed uncalled, discards it.
#pragma once

#include <gyre/base/operation.hpp>

#include <utility>

namespace gyre::detail {

/// An operation that is either executed or dropped, once. It owns itself, and may be gone
/// afterwards.
class droppable_operation : public operation {
 public:
  /// Ends the operation without running it. Any thread. May run a user's destructors.
  virtual void drop() noexcept = 0;

 protected:
  using operation::operation;
  ~droppable_operation() = default;
};

/// A callable that runs an operation once. Its destructor discards the operation if it was not
/// called.
class run_or_discard {
 public:
  using discard_function = void (*)(operation&) noexcept;

  run_or_discard(operation& op, discard_function discard) noexcept : op_(&op), discard_(discard) {}
  run_or_discard(run_or_discard&& other) noexcept
      : op_(std::exchange(other.op_, nullptr)), discard_(other.discard_) {}
  run_or_discard& operator=(run_or_discard&&) = delete;
  ~run_or_discard() {
    if (op_ != nullptr) discard_(*op_);
  }

  void operator()() { std::exchange(op_, nullptr)->execute(); }

 private:
  operation* op_;
  discard_function discard_;
};

}  // namespace gyre::detail

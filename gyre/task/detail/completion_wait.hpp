// SPDX-License-Identifier: Apache-2.0
// completion_wait: the wait for an operation that completes once, while it is being started or
// later, on any thread.
#pragma once

#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/detail/wait_core.hpp>
#include <gyre/task/executor.hpp>

#include <coroutine>

namespace gyre::detail {

/// A wait for an operation that completes once. The coroutine starts the operation, then calls
/// must_wait(); the operation's completion calls complete(). The later of the two calls continues
/// the coroutine: must_wait() returns false, or complete() posts the coroutine to its executor.
/// Allocates nothing.
class completion_wait : resumption {
 protected:
  completion_wait() noexcept = default;
  ~completion_wait() = default;

  void begin(std::coroutine_handle<> coroutine, executor& where) noexcept {
    waiting = coroutine;
    where_ = &where;
    core_.begin(starter | completer);
  }
  /// Called after the operation was started. Returns false if the operation has completed. If it
  /// returns true, complete() resumes the coroutine, and the wait may have been destroyed.
  bool must_wait() noexcept { return !core_.leave(starter); }
  /// Called on any thread after the outcome was stored. The wait may have been destroyed at the
  /// return.
  void complete() noexcept {
    if (core_.leave(completer)) where_->post(*this);
  }
  /// Returns whether the coroutine waits for complete().
  bool is_waiting() const noexcept { return core_.has(completer) && !core_.has(starter); }

 private:
  static constexpr wait_core::parties starter = 1;
  static constexpr wait_core::parties completer = 2;

  executor* where_ = nullptr;
  wait_core core_;
};

}  // namespace gyre::detail

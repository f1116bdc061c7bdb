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
/// begin_wait(); the operation's completion calls complete(). The later of the two calls continues
/// the coroutine: begin_wait() returns false, or complete() posts the coroutine to its executor.
/// Allocates nothing.
class completion_wait : resumption {
 protected:
  completion_wait() noexcept = default;
  ~completion_wait() = default;

  void begin(std::coroutine_handle<> coroutine, executor& target) noexcept {
    waiting = coroutine;
    executor_ = &target;
    core_.begin(starter | completer);
  }
  /// Begins the wait, after the operation was started. Returns false if the operation has
  /// completed. Called once. If it returns true, complete() resumes the coroutine, and the wait may
  /// have been destroyed.
  bool begin_wait() noexcept { return !core_.leave(starter); }
  /// Called on any thread after the outcome was stored. The wait may have been destroyed when this
  /// function returns.
  void complete() noexcept {
    if (core_.leave(completer)) executor_->post(*this);
  }
  /// Returns whether the coroutine waits for complete().
  bool is_waiting() const noexcept { return core_.has(completer) && !core_.has(starter); }

 private:
  static constexpr wait_core::parties starter = 1;
  static constexpr wait_core::parties completer = 2;

  executor* executor_ = nullptr;
  wait_core core_;
};

}  // namespace gyre::detail

// SPDX-License-Identifier: Apache-2.0
// completion_wait: the wait for an operation that completes once, within its start or at any time
// later, on any thread.
#pragma once

#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/detail/wait_core.hpp>
#include <gyre/task/executor.hpp>

#include <coroutine>

namespace gyre::detail {

/// The coroutine starts the operation, then calls must_wait(). The end of the operation calls
/// complete(). The later of the two calls decides: must_wait() tells the coroutine to continue, or
/// complete() posts the coroutine to its executor. Allocates nothing.
class completion_wait : resumption {
 protected:
  completion_wait() noexcept = default;
  ~completion_wait() = default;

  void begin(std::coroutine_handle<> coroutine, executor& where) noexcept {
    waiting = coroutine;
    where_ = &where;
    core_.begin(starter | completer);
  }
  /// Called after the start of the operation. False if the operation has completed; if true, the
  /// coroutine will be resumed, and the wait may be gone.
  bool must_wait() noexcept { return !core_.leave(starter); }
  /// Called after the outcome was stored, on any thread. The wait may be gone at the return.
  void complete() noexcept {
    if (core_.leave(completer)) where_->post(*this);
  }
  /// Whether the coroutine waits for complete().
  bool is_waiting() const noexcept { return core_.has(completer) && !core_.has(starter); }

 private:
  static constexpr wait_core::parties starter = 1;
  static constexpr wait_core::parties completer = 2;

  executor* where_ = nullptr;
  wait_core core_;
};

}  // namespace gyre::detail

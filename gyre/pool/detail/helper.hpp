// SPDX-License-Identifier: Apache-2.0
// helper: work that a thread does while it waits; a worker of a pool runs other tasks.
#pragma once

namespace gyre::detail {

class future_state_base;

/// Finds work that a waiting thread can do.
///
/// Thread-safety: belongs to one thread.
class helper {
 public:
  /// Runs one piece of pending work to its end; returns false if there is none. The work may itself
  /// wait and then helps again, deeper in the stack.
  virtual bool help_once() noexcept = 0;

  /// Called before the thread sleeps until `task` ends, because help_once() found nothing. Returns
  /// false if no thread is left that could run `task`: a deadlock. Otherwise on_wake_up() follows.
  virtual bool begin_sleep(const future_state_base& /*task*/) noexcept { return true; }
  virtual void on_wake_up() noexcept {}

 protected:
  ~helper() = default;
};

/// Returns the helper of the calling thread, or null. Not inlined, because coroutines change
/// threads and compilers cache the addresses of thread-locals.
helper* current_helper() noexcept;

/// Makes `new_helper` the helper of the calling thread for a scope.
class helping_scope {
 public:
  explicit helping_scope(helper& new_helper) noexcept;
  helping_scope& operator=(helping_scope&&) = delete;
  ~helping_scope();

 private:
  helper* outer_;
};

}  // namespace gyre::detail

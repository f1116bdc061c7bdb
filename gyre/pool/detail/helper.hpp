// SPDX-License-Identifier: Apache-2.0
// helper: work that a thread does while it waits; a pool's worker runs other tasks.
#pragma once

namespace gyre::detail {

class future_state_base;

/// A way to find such work.
///
/// Thread-safety: belongs to one thread.
class helper {
 public:
  /// Runs one waiting piece of work to its end; false if there is none. The work may itself wait,
  /// and then helps again, deeper in the stack.
  virtual bool help_once() noexcept = 0;

  /// Called before the thread sleeps until `task` ends, because help_once() found nothing. False if
  /// no thread is left that could run `task`: a deadlock. Otherwise on_wake_up() follows.
  virtual bool begin_sleep(const future_state_base& /*task*/) noexcept { return true; }
  virtual void on_wake_up() noexcept {}

 protected:
  ~helper() = default;
};

/// The helper of the calling thread, or null. Not inlined, as coroutines change threads and
/// compilers keep addresses of thread-locals.
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

// SPDX-License-Identifier: Apache-2.0
// helper: the work that a waiting thread can do meanwhile; a pool's worker runs other tasks.
#pragma once

namespace gyre::detail {

class future_state_base;

/// Thread-safety: belongs to one thread.
class helper {
 public:
  /// Runs one waiting piece of work to its end; false if there is none. The work may itself wait,
  /// and then helps again, deeper in the stack.
  virtual bool help_once() noexcept = 0;

  /// Before the thread sleeps without a deadline, because help_once() found nothing. False if no
  /// thread is left that could run `task`: a deadlock. Otherwise woke_up() follows.
  virtual bool may_sleep(const future_state_base& /*task*/) noexcept { return true; }
  virtual void woke_up() noexcept {}

 protected:
  ~helper() = default;
};

/// The helper of the calling thread, or null. Not inlined, as coroutines change threads.
helper* current_helper() noexcept;

/// Makes `inner` the helper of the calling thread for a scope.
class helping_scope {
 public:
  explicit helping_scope(helper& inner) noexcept;
  helping_scope& operator=(helping_scope&&) = delete;
  ~helping_scope();

 private:
  helper* outer_;
};

}  // namespace gyre::detail

// SPDX-License-Identifier: Apache-2.0
// What a thread that waits can do meanwhile: a pool's worker that waits for a task runs others.
#pragma once

namespace gyre::detail {

class outcome_base;

/// A thread's way to be of use while it waits. Belongs to that thread.
class helper {
 public:
  /// Runs one piece of work that waits, to its end, and returns true; false if there is none. The
  /// work may itself wait, and then helps again, deeper in the stack.
  virtual bool help_once() noexcept = 0;

  /// Before the thread sleeps because help_once() found nothing, to wait for `task` for ever. False
  /// if no thread is left that could run the task: a deadlock. Otherwise woke_up() follows.
  virtual bool may_sleep(const outcome_base& task) noexcept {
    static_cast<void>(task);
    return true;
  }
  virtual void woke_up() noexcept {}

 protected:
  ~helper() = default;
};

/// The helper of the calling thread; null if it has none. Out of line, as all that uses
/// thread-locals: coroutines change threads.
helper* current_helper() noexcept;

/// Makes `with` the helper of the calling thread for a scope.
class helping_scope {
 public:
  explicit helping_scope(helper& with) noexcept;
  helping_scope(const helping_scope&) = delete;
  helping_scope& operator=(const helping_scope&) = delete;
  ~helping_scope();

 private:
  helper* outer_;
};

}  // namespace gyre::detail

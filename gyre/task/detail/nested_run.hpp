// SPDX-License-Identifier: Apache-2.0
// nested_run: marks the work that a thread runs while an operation further down in its stack waits.
#pragma once

namespace gyre::detail {

/// A wait in which the calling thread runs other work, for the lifetime of this object: the turns
/// of sync_wait() and of a loop that a task runs, and the tasks that a waiting pool worker runs.
/// The operation that waits is not finished, so no other operation of its executor may begin above
/// it in the stack: running_here() is true only in the run in which the operation began.
///
/// Thread-safety: belongs to the thread that constructs it. Runs of one thread are destroyed in the
/// reverse order of their construction.
class nested_run {
 public:
  nested_run() noexcept;
  nested_run& operator=(nested_run&&) = delete;
  ~nested_run() { end(); }

  /// Ends the run before the object is destroyed.
  void end() noexcept;

 private:
  friend bool is_run_of_this_thread(const void* run) noexcept;

  const nested_run* const outer_;
};

/// Returns the innermost run of the calling thread: its nested_run or, without one, a mark of the
/// thread. Never null. Not inlined, because a coroutine may change threads while the compiler
/// caches the address of a thread-local variable.
const void* current_run() noexcept;
/// Returns whether `run` is the innermost run of the calling thread or one further down in its
/// stack. Accepts any value, even that of a run that has ended or belongs to another thread.
bool is_run_of_this_thread(const void* run) noexcept;

}  // namespace gyre::detail

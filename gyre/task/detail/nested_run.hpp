// SPDX-License-Identifier: Apache-2.0
// nested_run: marks the work that a thread runs while an operation further down in its stack waits.
#pragma once

namespace gyre::detail {

/// A wait in which the calling thread runs other work, for the lifetime of this object: the turns
/// of sync_wait() and of a loop that a task runs, and the tasks that a waiting worker helps with.
/// The operation below is in the middle of its work, so no other operation of its executor may run
/// above it: an executor is "here" only in the run in which its operation began.
///
/// Thread-safety: belongs to its thread. Scopes are nested.
class nested_run {
 public:
  nested_run() noexcept;
  nested_run& operator=(nested_run&&) = delete;
  ~nested_run() { end(); }

  /// Ends the run before its destruction.
  void end() noexcept;

 private:
  friend bool is_run_of_this_thread(const void* run) noexcept;

  const nested_run* const outer_;
};

/// The innermost run of the calling thread: its nested_run or, without one, a mark of the thread.
/// Not null. Not inlined, because coroutines change threads and compilers cache addresses of
/// thread-locals.
const void* current_run() noexcept;
/// Whether `run` is the innermost run of the calling thread or one further down in its stack. Any
/// value may be asked for, also that of a run that has ended or belongs to another thread.
bool is_run_of_this_thread(const void* run) noexcept;

}  // namespace gyre::detail

// SPDX-License-Identifier: Apache-2.0
// forked_child: one concurrent child of a coroutine, which starts before the coroutine awaits it.
#pragma once

#include <gyre/base/operation.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/child_set.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/detail/transfer.hpp>
#include <gyre/task/detail/wait_core.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>

#include <coroutine>
#include <optional>
#include <vector>

namespace gyre::detail {

/// The context of a forked child, and the synchronisation of the child's end with its parent's
/// wait.
///
/// On an executor that forks, the child waits in the queue of the parent's thread until another
/// thread steals it, or until the parent awaits it: then the parent takes the child back and
/// transfers to it. On other executors the child starts at once. If the child ends on another
/// thread than the parent's, its end and the parent's wait are decided in one atomic word
/// (wait_core).
///
/// Thread-safety: called by the parent, on one thread at a time; the child ends on any thread.
/// Lifetime: must exist from the fork until the child has ended; the parent's context must outlive
/// it.
class forked_child : operation, task_context, child_set {
 public:
  forked_child& operator=(forked_child&&) = delete;

  /// Asks the child to stop.
  bool request_stop() noexcept { return stop_.request_stop(); }
  /// Returns whether the child has ended; if so, the child's result is visible to the caller.
  bool has_ended() const noexcept { return !core_.has(running_child); }
  /// Returns the coroutine to transfer to, for await_suspend() of the parent. Throws
  /// std::logic_error if another coroutine awaits the child already.
  template <class Promise>
  std::coroutine_handle<> wait(std::coroutine_handle<Promise> coroutine) {
    return wait_for_end(coroutine, context_of(coroutine));
  }
  /// Removes the stop callback of the wait, for await_resume().
  void end_wait() noexcept { stop_by_waiter_.reset(); }

 protected:
  explicit forked_child(const forking_coroutine& origin) noexcept;
  ~forked_child() = default;

  /// Starts the child, or offers it to other threads. `first` is the child's coroutine, prepared to
  /// run in context().
  void start(std::coroutine_handle<> first) noexcept;
  /// Ends the program if the child has not ended. Called by the destructor of the derived class
  /// while the child's task exists.
  void check_ended() const noexcept {
    if (!has_ended()) [[unlikely]]
      abort_running();
  }

  task_context& context() noexcept { return *this; }
  const task_context& parent_context() const noexcept { return parent_context_; }

 private:
  static constexpr wait_core::parties parent_before_wait = 1;
  static constexpr wait_core::parties running_child = 2;

  [[noreturn, gnu::cold]] static void abort_running() noexcept;
  static void run(operation& self) noexcept;
  static std::coroutine_handle<> end(task_context& self) noexcept;
  static std::coroutine_handle<> end_taken_back(task_context& self) noexcept;
  std::coroutine_handle<> wait_for_end(std::coroutine_handle<> coroutine,
                                       const task_context& waiter);
  std::coroutine_handle<> parent_after_end(const executor* end_executor) noexcept;
  void append_children(std::vector<task_context*>& contexts) { contexts.push_back(this); }

  const task_context& parent_context_;
  linked_stop_source stop_;
  // Passes on the stop of a wait that has another stop token than the parent, as within
  // with_timeout().
  std::optional<inplace_stop_callback<request_stop_of>> stop_by_waiter_;
  std::coroutine_handle<> first_;
  // The queue that the child was pushed to; null if the child started at once.
  fork_queue* queue_ = nullptr;
  std::coroutine_handle<> parent_;  // the coroutine that awaits the child; null before that
  // The executor of the coroutine that awaits the child; null before that.
  executor* parent_executor_ = nullptr;
  wait_core core_{parent_before_wait | running_child};
};

/// An awaiter that waits for the child's end.
class forked_child_end {
 public:
  explicit forked_child_end(forked_child& child) noexcept : child_(child) {}

  static constexpr bool executor_affine = true;
  bool await_ready() const noexcept { return child_.has_ended(); }
  template <class Promise>
  GYRE_INLINE_IN_GCC std::coroutine_handle<> await_suspend(
      std::coroutine_handle<Promise> parent) const {
    return transfer_to(child_.wait(parent));
  }
  void await_resume() const noexcept { child_.end_wait(); }

 private:
  forked_child& child_;
};

}  // namespace gyre::detail

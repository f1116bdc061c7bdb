// SPDX-License-Identifier: Apache-2.0
// waiting_thread: the state of a thread that waits in a sync_wait().
#pragma once

#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/blocking_executor.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/deadlock_guard.hpp>
#include <gyre/task/detail/recorded_task.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <coroutine>
#include <exception>
#include <memory>
#include <source_location>

namespace gyre::detail {

/// An operation that sets a flag, on the thread of the executor that runs it.
struct done_operation : operation {
  explicit done_operation(bool& flag) noexcept
      : operation([](operation& self) { static_cast<done_operation&>(self).done = true; }),
        done(flag) {}
  bool& done;
};

/// Returns the result, or throws the exception, of a task that has ended, for a caller that is not
/// a coroutine: see error_outside().
template <class T>
T take_outside(task_state<T>& state) {
  if (state.failed()) [[unlikely]]
    std::rethrow_exception(error_outside(state.take_error()));
  return state.take_result();
}

/// The state of a thread that waits for a coroutine; also the coroutine's context.
class waiting_thread : public slab_object, task_context {
 public:
  waiting_thread(inplace_stop_token stop_when, std::source_location place);
  /// Destroys the state, unless suspended coroutines remain that refer to it.
  struct release {
    void operator()(waiting_thread* thread) const noexcept;
  };

  template <class T>
  T run(task_state<T>& task) {
    task.start(*this);
    [[maybe_unused]] const bool has_ended = executor_.run_until(is_done_);
    if constexpr (records_backtraces) {
      if (!has_ended) [[unlikely]]
        deadlock_.end(*this, task, executor_, is_done_);
    }
    return take_outside(task);
  }

 private:
  static std::coroutine_handle<> finish(task_context& self) noexcept;

  [[no_unique_address]] deadlock_guard deadlock_;
  blocking_executor executor_;
  bool is_done_ = false;
  done_operation end_elsewhere_{is_done_};  // posted when the coroutine ends on another thread
  std::unique_ptr<live_task_entry> live_entry_;
};

/// Owns a waiting_thread, which coroutines may outlive.
class kept_waiting_thread {
 public:
  kept_waiting_thread(inplace_stop_token stop_when, std::source_location place)
      : thread_(new waiting_thread(stop_when, place)) {}

  template <class T>
  T run(task_state<T>& task) {
    return thread_->run(task);
  }

 private:
  std::unique_ptr<waiting_thread, waiting_thread::release> thread_;
};

}  // namespace gyre::detail

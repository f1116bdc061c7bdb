// SPDX-License-Identifier: Apache-2.0
// sync_wait: runs an awaitable in ordinary code, on the calling thread, until it has a result.
//
//     int answer = gyre::sync_wait(compute());
#pragma once

#include <gyre/base/detail/slab_object.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/blocking_executor.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/deadlock_guard.hpp>
#include <gyre/task/detail/recorded_task.hpp>
#include <gyre/task/stop_token.hpp>

#include <exception>
#include <memory>
#include <source_location>
#include <type_traits>
#include <utility>

namespace gyre {
namespace detail {

/// Sets a flag on the thread of an executor.
struct done_operation : operation {
  explicit done_operation(bool& flag) noexcept
      : operation([](operation& self) { static_cast<done_operation&>(self).done = true; }),
        done(flag) {}
  bool& done;
};

/// Returns the result, or throws the exception, of a task that has ended, in ordinary code.
template <class T>
T take_outside(task_state<T>& ended) {
  if (ended.failed()) [[unlikely]]
    std::rethrow_exception(error_outside(ended.take_error()));
  return ended.take_result();
}

/// A thread that waits for a coroutine, as the coroutine's context.
class waiting_thread : public slab_object, task_context {
 public:
  waiting_thread(inplace_stop_token stop_when, std::source_location place);
  /// Destroys the thread's part, unless coroutines that are left suspended refer to it.
  struct release {
    void operator()(waiting_thread* ended) const noexcept;
  };

  template <class T>
  T run(task_state<T>& task) {
    task.start(*this);
    [[maybe_unused]] const bool has_ended = executor_.run_until(done_);
    if constexpr (records_backtraces) {
      if (!has_ended) [[unlikely]]
        deadlock_.end(*this, task, executor_, done_);
    }
    return take_outside(task);
  }

 private:
  static std::coroutine_handle<> finish(task_context& self) noexcept;

  [[no_unique_address]] deadlock_guard deadlock_;
  blocking_executor executor_;
  bool done_ = false;
  done_operation when_elsewhere_{done_};  // for a coroutine that ends on another thread
  std::unique_ptr<live_task_entry> recorded_;
};

/// A waiting_thread that coroutines may outlive.
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

}  // namespace detail

/// Runs `awaitable` on the calling thread until it has a result, and returns that. The thread is
/// the executor of the awaitable, and sleeps while there is nothing to run. `stop` asks the
/// awaitable to stop. Waits for time need sync_wait(loop, …) of gyre/exec/sync_wait.hpp.
///
/// Thread-safety: any thread but that of a loop or pool that `awaitable` needs.
/// Lifetime: `awaitable` has ended at the return, but for what a deadlock report leaves behind.
/// Errors: those of `awaitable`; std::errc::operation_canceled if `stop` ended it;
/// std::errc::operation_not_supported for waits for time. Where backtraces are on
/// (async_backtrace.hpp), std::errc::resource_deadlock_would_occur if all coroutines wait and the
/// program has no other thread to wake one; elsewhere sync_wait() then waits for ever.
/// Complexity: no system call if nothing has to wait.
/// live_tasks() lists it as "sync_wait", with the place of the call.
///
/// - The report of a deadlock, on stderr and in what(), shows the awaits in which each task is
///   suspended, children below the task that waits for them.
/// - Before the error is thrown, the coroutines are asked to stop and run until they have ended or
///   wait again. A task that still waits is destroyed, and ends as if it had been cancelled.
/// - A task that another executor may have in its queue stays suspended for ever, with the tasks
///   that wait for it and all that they hold.
/// - A coroutine that goes to an executor whose only thread is in the sync_wait() that waits for it
///   gets the same error, with a backtrace.
template <awaitable Awaitable>
  requires detail::well_awaited<Awaitable>
decltype(auto) sync_wait(Awaitable&& awaitable, inplace_stop_token stop = {},
                         std::source_location place = std::source_location::current()) {
  // Outlives the coroutines, even those that a deadlock report leaves suspended.
  std::conditional_t<detail::records_backtraces, detail::kept_waiting_thread,
                     detail::waiting_thread>
      here(stop, place);
  auto task = as_task(std::forward<Awaitable>(awaitable));
  return here.run(detail::task_access::state(task));
}
// Explains wrong arguments: see base/detail/misuse.hpp.
void sync_wait(detail::misused_awaitable explained, inplace_stop_token stop = {});

}  // namespace gyre

// SPDX-License-Identifier: Apache-2.0
// From ordinary code into coroutines and back.
//
//     int answer = gyre::sync_wait(compute());
#pragma once

#include <gyre/base/detail/slab_object.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/blocking_executor.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
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
  explicit waiting_thread(inplace_stop_token stop_when) noexcept;
#if GYRE_ASYNC_BACKTRACE
  /// Destroys it, unless coroutines that were given up still refer to it.
  struct release {
    void operator()(waiting_thread* ended) const noexcept;
  };
#endif

  template <class T>
  T run(task_state<T>& task) {
    task.start(*this);
#if GYRE_ASYNC_BACKTRACE
    if (!executor_.run_until(done_)) [[unlikely]]
      end_deadlock(task);
#else
    executor_.run_until(done_);
#endif
    return take_outside(task);
  }

 private:
  static std::coroutine_handle<> finish(task_context& self) noexcept;
#if GYRE_ASYNC_BACKTRACE
  [[noreturn]] void end_deadlock(task_end& work);
  bool cancel_remaining();

  inplace_stop_source end_all_;
  std::optional<inplace_stop_callback<request_stop_of>> on_stop_;  // ends when the sync_wait does
  bool given_up_ = false;
#endif

  blocking_executor executor_;
  bool done_ = false;
  done_operation when_elsewhere_{done_};  // how a coroutine that ends on another thread says so
};

}  // namespace detail

/// Runs `awaitable`, a task or anything else a coroutine can await, on the calling thread until it
/// has a result, and returns that or throws what it threw. Coroutines within are resumed on this
/// thread, unless they go elsewhere themselves; while all of them wait, the thread sleeps. Makes no
/// system call if nothing has to wait. `stop` asks the awaitable to stop: if it ends because of
/// that, std::system_error (std::errc::operation_canceled) is thrown.
///
/// Operations that need time are not supported here (std::errc::operation_not_supported): use
/// sync_wait(loop, …) of exec for those. Must not be called on the thread of a loop or pool that
/// the awaitable needs, because that thread then waits for itself.
///
/// Errors: where backtraces are on (async_backtrace.hpp), in Debug builds for instance,
/// std::system_error with std::errc::resource_deadlock_would_occur, if all coroutines wait and the
/// program has no other thread that could wake one; elsewhere sync_wait() then waits for ever.
///
/// - The report, on the standard error output and in what(), names the awaits in which each live
///   task is suspended: tasks of scopes and children of when_all() and the like below the task that
///   waits for them.
/// - Before the error is thrown the coroutines are asked to stop, and run until they have ended or
///   wait again. A task that still waits is destroyed, and ends as if it had been cancelled.
/// - Another executor may have a task in its queue that goes on or waits there. Such a task is left
///   as it is, with those that wait for it and all that they hold, and never runs again.
///
/// The same error, with a backtrace, is thrown into a coroutine that goes to an executor whose only
/// thread is in the sync_wait() that waits for it.
template <class Awaitable>
decltype(auto) sync_wait(Awaitable&& awaitable, inplace_stop_token stop = {}) {
  // Outlives the coroutines, also when they are given up.
#if GYRE_ASYNC_BACKTRACE
  const std::unique_ptr<detail::waiting_thread, detail::waiting_thread::release> waiting(
      new detail::waiting_thread(stop));
  detail::waiting_thread& here = *waiting;
#else
  detail::waiting_thread here(stop);
#endif
  auto task = as_task(std::forward<Awaitable>(awaitable));
  return here.run(detail::task_access::state(task));
}

}  // namespace gyre

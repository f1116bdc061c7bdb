// SPDX-License-Identifier: Apache-2.0
// From ordinary code into coroutines and back.
//
//     int answer = gyre::sync_wait(compute());
#pragma once

#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/blocking_executor.hpp>
#include <gyre/task/task.hpp>

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

/// A thread that waits for a coroutine, as the coroutine's context.
class waiting_thread : task_context {
 public:
  explicit waiting_thread(inplace_stop_token stop_when) noexcept;

  template <class T>
  T run(task_state<T>& task) {
    task.start(*this);
    executor_.run_until(done_, *this);
    return task.take_result();
  }

 private:
  static std::coroutine_handle<> tell(task_context& self) noexcept;

  blocking_executor executor_;
  bool done_ = false;
  done_operation when_elsewhere_{done_};  // how a coroutine that ends on another thread says so
};

}  // namespace detail

/// Runs `awaitable`, a task or anything else a coroutine can await, on the calling thread until it
/// has a result, and returns that or throws what it threw. Coroutines within are resumed on this
/// thread, unless they go elsewhere themselves; while all of them wait, the thread sleeps. Makes no
/// system call if nothing has to wait. `stop` asks the awaitable to stop.
///
/// Operations that need time are not supported here (std::errc::operation_not_supported): use
/// sync_wait(loop, …) of exec for those. Must not be called on the thread of a loop or pool that
/// the awaitable needs, because that thread then waits for itself: Debug builds throw
/// std::system_error (std::errc::resource_deadlock_would_occur), with a backtrace, where it is
/// certain that nothing can wake the coroutines.
template <class Awaitable>
decltype(auto) sync_wait(Awaitable&& awaitable, inplace_stop_token stop = {}) {
  detail::waiting_thread here(stop);  // outlives the coroutines, also when they are given up
  auto task = as_task(std::forward<Awaitable>(awaitable));
  return here.run(detail::task_access::state(task));
}

}  // namespace gyre

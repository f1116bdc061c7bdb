// SPDX-License-Identifier: Apache-2.0
// sync_wait: runs a loop until a coroutine has finished; the main() of a program of coroutines.
//
//     gyre::loop loop;
//     gyre::sync_wait(loop, serve(loop));
#pragma once

#include <gyre/exec/event_loop.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>

#include <thread>
#include <utility>

namespace gyre {

namespace detail {

/// The context of the coroutine that a loop is run for.
class waiting_loop : task_context {
 public:
  waiting_loop(event_loop& loop, inplace_stop_token stop_when);

  template <class T>
  T run(task_state<T>& task) {
    task.start(*this);
    run_until_done();
    return take_outside(task);
  }

 private:
  static std::coroutine_handle<> finish(task_context& self) noexcept;
  void run_until_done();

  event_loop& loop_;
  const std::thread::id thread_ = std::this_thread::get_id();
  linked_stop_source stop_;
  bool done_ = false;
  done_operation when_elsewhere_{done_};
};

}  // namespace detail

/// Runs the loop `target` on the calling thread until `awaitable` has completed, and returns its
/// result or rethrows its exception. The awaitable starts at once, before other tasks of the loop.
/// It is asked to stop by `stop`, by event_loop::stop(), and by an exception that leaves a turn of
/// the loop: the loop then runs on until the awaitable has ended, and is left stopped, or the
/// exception goes on.
///
/// Lifetime: the loop may be destroyed at once. Its destructor waits for other threads that have
/// resumed the coroutine and are still in event_loop::post().
/// Errors: std::system_error (std::errc::operation_canceled) if the awaitable ended because it was
/// asked to stop; std::logic_error when called by a task of the loop.
template <class Awaitable>
decltype(auto) sync_wait(event_loop& target, Awaitable&& awaitable, inplace_stop_token stop = {}) {
  detail::waiting_loop here(target, stop);  // outlives the coroutines, also abandoned ones
  auto task = as_task(std::forward<Awaitable>(awaitable));
  return here.run(detail::task_access::state(task));
}

}  // namespace gyre

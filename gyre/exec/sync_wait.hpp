// SPDX-License-Identifier: Apache-2.0
// Running a loop until a coroutine has finished: the main() of a program of coroutines.
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

/// A loop that is run for the sake of one coroutine, as the coroutine's context.
class waiting_loop : task_context {
 public:
  waiting_loop(event_loop& loop, inplace_stop_token stop_when);

  template <class T>
  T run(task_state<T>& task) {
    task.start(*this);
    run_until_done();
    return take_outside([&]() -> T { return task.take_result(); });
  }

 private:
  static std::coroutine_handle<> tell(task_context& self) noexcept;
  void run_until_done();

  event_loop& loop_;
  const std::thread::id thread_ = std::this_thread::get_id();
  linked_stop_source stop_;
  bool done_ = false;
  done_operation when_elsewhere_{done_};
};

}  // namespace detail

/// Runs the loop `target` on the calling thread until `awaitable` has a result, and returns that or
/// throws what it threw; std::system_error (std::errc::operation_canceled) if it ended because it
/// was asked to stop. The awaitable starts at once, before other tasks of the loop. `stop` asks it
/// to stop; so do event_loop::stop() and what event_loop::run() would throw: the loop then runs on
/// until the awaitable has ended, and is left stopped, or the exception goes on. Throws
/// std::logic_error when called by a task of the loop.
///
/// A thread that resumed the coroutine on the loop (of another loop it went to, or one that unlocked or
/// sent what it waited for) may still be in event_loop::post() when this returns. The loop's
/// destructor waits for that call, so the loop may be destroyed at once, and made before those threads or
/// after them.
template <class Awaitable>
decltype(auto) sync_wait(event_loop& target, Awaitable&& awaitable, inplace_stop_token stop = {}) {
  detail::waiting_loop here(target, stop);  // outlives the coroutines, also when they are given up
  auto task = as_task(std::forward<Awaitable>(awaitable));
  return here.run(detail::task_access::state(task));
}

}  // namespace gyre

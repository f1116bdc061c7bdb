// SPDX-License-Identifier: Apache-2.0
// with_timeout: awaits an operation and stops it when a time limit expires.
//
//     auto reply = co_await gyre::with_timeout(ask(server), 2s);
#pragma once

#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/deadline_stop.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <chrono>
#include <exception>
#include <system_error>
#include <utility>

namespace gyre {
namespace detail {

template <class T>
task<T> with_deadline_stop(task<T> awaited, std::chrono::nanoseconds limit) {
  task_context& context = co_await this_context();
  linked_stop_source source(context.stop);
  task<T> work(std::move(awaited));  // a parameter would outlive the source
  bool timed_out = false;
  {
    deadline_stop timeout(source, limit);
    co_await timeout.adopt();
    timeout.start();
    {
      const stopped_by scoped(context, source.get_token());
      co_await await_ready_state(work);
    }
    co_await timeout.return_to_executor();
    co_await timeout.cancel();
    timed_out = timeout.was_first();
  }
  if (std::exception_ptr error = task_access::state(work).take_error()) {
    if (timed_out && is_cancelled(error)) {
      error = make_error(std::errc::timed_out);
    } else if (error == cancellation()) {
      error = cancellation_in(context);
    }
    co_await fail_with(error);
  }
  co_return task_access::state(work).take_result();
}

}  // namespace detail

/// Awaits `awaitable` and gives its result, but asks it to stop when `limit` has passed since the
/// await began. `awaitable` is awaited to its end all the same, and a value that comes in spite of
/// the limit is given. A limit of zero or less expires in the executor's next turn. For errors as
/// values write as_expected(with_timeout(…)), as with_timeout() throws its std::errc::timed_out.
///
/// Lifetime: on an executor of one thread, the coroutine may be destroyed on that thread while it
/// waits, if `awaitable` allows that.
/// Errors: std::errc::timed_out if the limit ended `awaitable`; else those of `awaitable`;
/// std::errc::operation_not_supported where the coroutine's executor has no timers.
/// Complexity: a coroutine frame, one more unless `awaitable` is a task, a timer, a stop callback.
template <awaitable Awaitable>
[[nodiscard]] auto with_timeout(Awaitable awaitable, std::chrono::nanoseconds limit) {
  return detail::with_deadline_stop(as_task(std::move(awaitable)), limit);
}

}  // namespace gyre

// SPDX-License-Identifier: Apache-2.0
// shielded: awaits an operation that stops of the awaiting coroutine do not reach.
//
//     gyre::task<> close_session(session& of) {
//       co_await gyre::shielded(of.say_goodbye(), 2s);  // also when the server is asked to stop
//     }
#pragma once

#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/with_timeout.hpp>

#include <chrono>
#include <utility>

namespace gyre {

/// Awaits `awaitable`, for clean-up that must wait: a stop of the awaiting coroutine, requested
/// before or meanwhile, does not reach it, nor what it starts beside itself (when_all, scopes). The
/// next wait behind it sees that stop again. Gives or throws what `awaitable` does.
///
/// A stop then takes as long as `awaitable` does, so prefer the form with a limit wherever a peer
/// decides how long that is. To have the clean-up run whatever happens before it, see finally().
/// Complexity: a coroutine frame, no atomic operation.
template <awaitable Awaitable>
task<task_result_t<Awaitable>> shielded(Awaitable awaitable) {
  task_context& context = co_await detail::this_context();
  const detail::stopped_by nobody(context, inplace_stop_token());
  co_return co_await std::move(awaitable);
}

/// The same for at most `limit`: `awaitable` is then asked to stop and awaited, and if it was
/// cancelled by that, std::system_error with std::errc::timed_out is thrown, as by with_timeout().
/// Errors: std::errc::operation_not_supported where the executor has no timers.
template <awaitable Awaitable>
task<task_result_t<Awaitable>> shielded(Awaitable awaitable, std::chrono::nanoseconds limit) {
  return shielded(with_timeout(std::move(awaitable), limit));
}

}  // namespace gyre

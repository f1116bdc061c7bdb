// SPDX-License-Identifier: Apache-2.0
// shielded: awaits an operation that a stop of the awaiting coroutine does not reach.
//
//     gyre::task<> close_session(session& of) {
//       co_await gyre::shielded(of.say_goodbye(), 2s);  // also when the server is asked to stop
//     }
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/with_timeout.hpp>

#include <chrono>
#include <coroutine>
#include <utility>

namespace gyre {

/// Awaits `awaitable` out of reach of stops, for clean-up that awaits: a stop of the awaiting
/// coroutine, requested before or during the await, reaches neither `awaitable` nor the children
/// that it starts (when_all, scopes). The next wait after shielded() observes the stop again.
///
/// The coroutine then takes as long to stop as `awaitable` takes, so prefer the form with a limit
/// wherever a peer decides how long that is. For clean-up that must run in any case see finally().
/// Complexity: a coroutine frame, no atomic operation.
template <awaitable Awaitable>
task<task_result_t<Awaitable>> shielded(Awaitable awaitable) {
  task_context& context = co_await detail::this_context();
  const detail::stopped_by no_stop(context, inplace_stop_token());
  co_return co_await std::move(awaitable);
}

/// Returns shielded(with_timeout(awaitable, limit)).
template <awaitable Awaitable>
task<task_result_t<Awaitable>> shielded(Awaitable awaitable, duration limit) {
  return shielded(with_timeout(std::move(awaitable), limit));
}
// This overload explains wrong arguments: see base/detail/misuse.hpp.
std::suspend_never shielded(detail::misused_awaitable explained);
std::suspend_never shielded(detail::misused_awaitable explained, duration limit);

}  // namespace gyre

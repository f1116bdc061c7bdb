// SPDX-License-Identifier: Apache-2.0
// with_timeout: awaits an operation and stops it when a time limit expires.
//
//     auto reply = co_await gyre::with_timeout(ask(server), 2s);
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/limited_awaiters.hpp>
#include <gyre/task/time_limit_error.hpp>

#include <coroutine>
#include <utility>

namespace gyre {

/// Awaits `awaitable` and returns its result, but asks it to stop when `limit` has passed since the
/// await began. `awaitable` is awaited until it ends in any case, and a value that it returns in
/// spite of the limit is returned. A limit of zero or less expires in the executor's next turn. On
/// a loop, a limit counts from the end of the batch of work in which the await began, so that
/// limits which begin together expire together. with_timeout() throws its errors; for errors as
/// values write as_expected(with_timeout(…)). Converts to a task.
///
/// Lifetime: on an executor of one thread, the coroutine may be destroyed on that thread while it
/// waits, if `awaitable` allows that. For a task, and for a with_timeout() within a with_timeout(),
/// this holds only until the limit expires: the expiry stops the work, as request_stop() does.
/// Errors: time_limit_errc::expired (equal to std::errc::timed_out) if the limit ended `awaitable`,
/// with the limit in what(). Otherwise the errors of `awaitable`, including the error of a stopped
/// task whose end `awaitable` waits for (join_set::next(), join_handle::join(), a future).
/// std::errc::operation_not_supported if the coroutine's executor has no timers; an operation of a
/// stream, a socket or a listener uses those of its loop.
/// Complexity: no allocation for a task or for a single operation of gyre (a read, a sleep); a
/// coroutine frame for other awaitables. An operation of a stream, a socket or a listener needs a
/// timer, some 50 bytes of the coroutine's frame, which is started only if the operation must wait;
/// other awaitables need a timer and a stop source, some 300 bytes. An expiry causes one throw in
/// the awaiting coroutine (none for as_expected()), in addition to the throws of the coroutines of
/// `awaitable`.
template <awaitable Awaitable>
[[nodiscard]] auto with_timeout(Awaitable awaitable, duration limit) {
  return detail::limit_time<Awaitable>(std::move(awaitable), limit);
}
// This overload explains wrong arguments: see base/detail/misuse.hpp.
std::suspend_never with_timeout(detail::misused_awaitable explained, duration limit);
template <awaitable Awaitable>
std::suspend_never with_timeout(Awaitable&& awaitable, detail::misused_duration explained);

}  // namespace gyre

// SPDX-License-Identifier: Apache-2.0
// sync_wait: runs an awaitable in ordinary code on the calling thread, until it has a result.
//
//     int answer = gyre::sync_wait(compute());
#pragma once

#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/waiting_thread.hpp>
#include <gyre/task/stop_token.hpp>

#include <source_location>
#include <type_traits>
#include <utility>

namespace gyre {

/// Runs `awaitable` on the calling thread until it has a result, and returns the result. The thread
/// is the executor of the awaitable, and sleeps while there is nothing to run. `stop` asks the
/// awaitable to stop. Waits for time need sync_wait(loop, …) of gyre/exec/sync_wait.hpp.
///
/// Thread-safety: may be called from any thread except the threads of a loop or pool that
/// `awaitable` needs.
/// Lifetime: `awaitable` has ended when sync_wait() returns, except for coroutines that a deadlock
/// report leaves suspended.
/// Errors: those of `awaitable`; std::errc::operation_canceled if `stop` ended it;
/// std::errc::operation_not_supported for waits for time. Where backtraces are on
/// (async_backtrace.hpp), std::errc::resource_deadlock_would_occur if all coroutines wait and the
/// program has no other thread that could wake one; in other builds sync_wait() then waits for
/// ever.
/// Complexity: no system call if nothing has to wait. live_tasks() lists the call as "sync_wait",
/// with the caller's place.
///
/// - The report of a deadlock, on stderr and in what(), shows the awaits in which each task is
///   suspended, and children below the task that waits for them.
/// - Before the error is thrown, the coroutines are asked to stop and run until they have ended or
///   wait again. A task that still waits is destroyed, and ends as if it had been cancelled.
/// - A task that may be in another executor's queue stays suspended for ever, with the tasks that
///   wait for it and all objects that they own.
/// - A coroutine that moves to an executor whose only thread is in the sync_wait() that waits for
///   the coroutine gets the same error, with a backtrace.
template <awaitable Awaitable>
  requires detail::well_awaited<Awaitable>
decltype(auto) sync_wait(Awaitable&& awaitable, inplace_stop_token stop = {},
                         std::source_location place = std::source_location::current()) {
  // The object must outlive the coroutines, even those that a deadlock report leaves suspended.
  std::conditional_t<detail::records_backtraces, detail::kept_waiting_thread,
                     detail::waiting_thread>
      thread(stop, place);
  auto task = as_task(std::forward<Awaitable>(awaitable));
  return thread.run(detail::task_access::state(task));
}
// This overload explains wrong arguments: see base/detail/misuse.hpp.
void sync_wait(detail::misused_awaitable explained, inplace_stop_token stop = {});

}  // namespace gyre

// SPDX-License-Identifier: Apache-2.0
// sleep_for, sleep_until: suspend a coroutine until a deadline.
//
//     co_await gyre::sleep_for(250ms);
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/misuse.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/task/detail/sleep_awaiter.hpp>

#include <coroutine>

namespace gyre {

/// Awaited, suspends the coroutine for at least `delay`; for zero or less, until the next turn (the
/// next iteration of the event loop) of its executor.
///
/// Thread-safety: waits on the timers of the coroutine's executor, and resumes there. A stop ends
/// the wait at once, from any thread.
/// Lifetime: on an executor of one thread, the coroutine may be destroyed on that thread while it
/// waits, until a stop is requested; on an executor of several threads it must not.
/// Errors: throws gyre::operation_cancelled when asked to stop; std::errc::operation_not_supported
/// if the executor has no timers.
/// Complexity: O(1), no allocation.
[[nodiscard]] inline auto sleep_for(duration delay) noexcept {
  return detail::sleep_awaiter(delay);
}
// This overload explains wrong arguments: see base/detail/misuse.hpp.
std::suspend_never sleep_for(detail::misused_duration explained);

/// Awaited, suspends the coroutine as sleep_for() does, but until `deadline` by the clock of the
/// executor's timers.
[[nodiscard]] inline auto sleep_until(time_point deadline) noexcept {
  return detail::sleep_awaiter(deadline);
}

}  // namespace gyre

// SPDX-License-Identifier: Apache-2.0
// blocking: calls a function that may block on a thread of io::blocking_pool(), while a coroutine
// waits for its result.
//
//     auto counting = gyre::io::blocking([&] { return count_rows(database); });
//     std::size_t rows = co_await std::move(counting);  // on the coroutine's own executor again
#pragma once

#include <gyre/base/detail/awaited_value.hpp>
#include <gyre/io/detail/blocking_awaiter.hpp>

#include <concepts>
#include <type_traits>
#include <utility>

namespace gyre::io {

/// Awaited, calls `function` with `arguments` on a thread of blocking_pool(), and returns the
/// result or throws the exception, on the coroutine's executor. If the function takes an
/// inplace_stop_token before the arguments, it gets the coroutine's token, as with std::jthread.
/// Use it for a call that waits for a disk, another process or a network; to compute for long on
/// several cores, use a thread_pool.
///
/// The function and the arguments are moved or copied in, and passed as rvalues; std::ref passes a
/// reference. They are destroyed with the awaited object, on the coroutine's executor.
///
/// A stop withdraws a call that has not begun: the wait ends at once, by
/// gyre::operation_cancelled. A call that has begun cannot be interrupted: its result is returned
/// in spite of a stop, and the next wait of the coroutine ends. A function that may take long
/// should therefore look at its stop token.
///
/// Lifetime: what the function refers to must live until the wait has ended. The coroutine may be
/// destroyed while it waits, on a thread of its executor: a call that has not begun is then never
/// made, and the destruction waits for the end of one that has.
/// Errors: exceptions of the function. std::system_error if the pool's threads cannot be started.
/// An operation_cancelled that leaves the function becomes std::errc::operation_canceled.
/// Complexity: one block of the slab, and a hop to another thread and back (some microseconds).
/// With GCC 12 name the returned object, as in the example, unless the function has no captures
/// with destructors: see invoke().
template <class Function, class... Arguments>
  requires(detail::blocking_function<std::decay_t<Function>, std::decay_t<Arguments>...> &&
           !(gyre::detail::unsafe_temporary<Arguments> || ...))
[[nodiscard]] auto blocking(Function&& function, Arguments&&... arguments) {
  return detail::blocking_awaiter<std::decay_t<Function>, std::decay_t<Arguments>...>(
      std::forward<Function>(function), std::forward<Arguments>(arguments)...);
}
// This overload explains wrong arguments: see base/detail/awaited_value.hpp.
template <class Function, class... Arguments>
  requires(gyre::detail::unsafe_temporary<Arguments> || ...)
GYRE_MISUSE(GYRE_UNSAFE_TEMPORARY)
std::suspend_never blocking(Function&&, Arguments&&...) {
  return {};
}

}  // namespace gyre::io

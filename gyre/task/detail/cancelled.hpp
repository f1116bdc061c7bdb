// SPDX-License-Identifier: Apache-2.0
// How a wait ends that failed, or was asked to stop.
#pragma once

#include <gyre/task/context.hpp>
#include <gyre/task/operation_cancelled.hpp>

#include <coroutine>
#include <cstdint>
#include <exception>
#include <system_error>
#include <utility>

namespace gyre::detail {

/// From this many swallowed cancellations on, a wait gives way to other work before it throws
/// again; and from that many on the program ends. docs/design/coroutines.md says why these.
inline constexpr std::uint32_t prompt_cancellations = 100;
inline constexpr std::uint32_t most_cancellations = 100'000;

/// Throws what a wait throws that failed with `error` in `context`, or in none (null):
/// operation_cancelled if it was cancelled because the coroutine was asked to stop, else
/// std::system_error, with `what` if that is not null.
[[noreturn, gnu::cold]] void throw_failure(std::error_code error, const task_context* context,
                                           const char* what = nullptr);
/// The same for std::errc::operation_canceled.
[[noreturn, gnu::cold]] void throw_cancelled(const task_context& context);

/// For waits that tell errors as values: `error`, unless throw_failure() would throw
/// operation_cancelled, which this then does.
[[gnu::cold]] std::error_code failure_value(std::error_code error, const task_context* context);

/// Within the handler of an operation_cancelled that leaves work of the same context with another
/// token: passes it on, uncounted, if the coroutine was asked to stop, else throws
/// std::system_error.
[[noreturn, gnu::cold]] void rethrow_cancelled(const task_context& context);

/// Throws std::system_error for `error`.
[[noreturn, gnu::cold]] void throw_error(std::errc error);

/// Counts that a coroutine learns again that it was asked to stop.
[[gnu::cold]] void count_cancellation(const task_context& context);

/// For await_suspend() of a wait that is over before it began: true if the coroutine, which has
/// swallowed its cancellation many times, goes on through its executor instead of at once.
[[gnu::cold]] bool yield_cancelled(const task_context& context,
                                   std::coroutine_handle<> awaiting) noexcept;
inline bool gives_way(const task_context& context, std::coroutine_handle<> awaiting) noexcept {
  return context.cancellations >= prompt_cancellations && yield_cancelled(context, awaiting);
}

/// Whether `error` says that a wait was cancelled, by a stop or otherwise. Catches it, so costs
/// what a throw costs.
[[gnu::cold]] bool is_cancelled(const std::exception_ptr& error) noexcept;
inline bool is_cancelled(const std::system_error& error) noexcept {
  return error.code() == std::errc::operation_canceled;
}

/// Calls `function`, which gives the result of work that had a stop token of its own, for the
/// coroutine of `parent`: an operation_cancelled of the work becomes one of the parent, if that was
/// asked to stop, else std::system_error.
template <class Function>
decltype(auto) take_for(const task_context& parent, Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const operation_cancelled&) {
    throw_cancelled(parent);
  }
}

/// The same for code that is no coroutine: always std::system_error.
template <class Function>
decltype(auto) take_outside(Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const operation_cancelled&) {
    throw_error(std::errc::operation_canceled);
  }
}
/// The exception being handled, as code that is no coroutine gets it.
std::exception_ptr current_exception_outside() noexcept;

}  // namespace gyre::detail

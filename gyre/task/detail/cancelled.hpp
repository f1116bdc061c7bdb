// SPDX-License-Identifier: Apache-2.0
// How a wait ends that failed, or was asked to stop.
#pragma once

#include <gyre/task/context.hpp>
#include <gyre/task/operation_cancelled.hpp>

#include <coroutine>
#include <cstdint>
#include <exception>
#include <system_error>

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

// A stop travels between tasks as a status: every operation_cancelled that leaves a coroutine
// becomes the same exception_ptr, which combinators compare and pass on without a throw.

/// The exception_ptr of every operation_cancelled.
[[gnu::cold]] const std::exception_ptr& cancellation() noexcept;
/// The exception being handled; cancellation() for an operation_cancelled.
[[gnu::cold]] std::exception_ptr caught_error() noexcept;
/// An exception_ptr of std::system_error.
[[gnu::cold]] std::exception_ptr make_error(std::errc error) noexcept;

/// Whether `error` says that a wait was cancelled, by a stop or otherwise. Catches `error`, at the
/// cost of a throw, unless it is cancellation().
[[gnu::cold]] bool is_cancelled(const std::exception_ptr& error) noexcept;

/// The cancellation of work in `context` that had another stop token: cancellation() if the
/// coroutine itself was asked to stop, else std::system_error. Not counted.
[[gnu::cold]] std::exception_ptr cancellation_in(const task_context& context) noexcept;
/// `error` of a child with a stop token of its own, for the coroutine of `parent`; a cancellation
/// is counted.
[[gnu::cold]] std::exception_ptr error_for(const task_context& parent,
                                           std::exception_ptr error) noexcept;
/// `error` for ordinary code: std::system_error in place of cancellation().
[[gnu::cold]] std::exception_ptr error_outside(std::exception_ptr error) noexcept;
/// The exception being handled, for ordinary code.
[[gnu::cold]] std::exception_ptr current_exception_outside() noexcept;

}  // namespace gyre::detail

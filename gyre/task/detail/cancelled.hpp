// SPDX-License-Identifier: Apache-2.0
// Errors of waits: failures, and the cancellation of a coroutine that was asked to stop.
#pragma once

#include <gyre/task/context.hpp>
#include <gyre/task/operation_cancelled.hpp>

#include <coroutine>
#include <cstdint>
#include <exception>
#include <system_error>

namespace gyre::detail {

/// The number of swallowed cancellations from which on a wait yields before it throws again, and
/// the one at which the program ends: see docs/design/coroutines.md.
inline constexpr std::uint32_t prompt_cancellations = 100;
inline constexpr std::uint32_t max_cancellations = 100'000;

/// Throws the exception of a wait in `context`, or in none (null), that failed with `error`:
/// operation_cancelled if that is due to a stop of the coroutine, else std::system_error, with
/// `what` unless that is null.
[[noreturn, gnu::cold]] void throw_failure(std::error_code error, const task_context* context,
                                           const char* what = nullptr);
/// throw_failure() for std::errc::operation_canceled.
[[noreturn, gnu::cold]] void throw_cancelled(const task_context& context);

/// Returns `error`, for waits that give errors as values, but throws operation_cancelled where
/// throw_failure() does.
[[gnu::cold]] std::error_code failure_value(std::error_code error, const task_context* context);

/// Throws std::system_error for `error`.
[[noreturn, gnu::cold]] void throw_error(std::errc error);

/// Counts a cancellation; ends the program after max_cancellations.
[[gnu::cold]] void count_cancellation(const task_context& context);

/// Posts a coroutine that was asked to stop to its executor; false if it was not asked, or has no
/// queue.
[[gnu::cold]] bool yield_cancelled(const task_context& context,
                                   std::coroutine_handle<> coroutine) noexcept;
inline bool gives_way(const task_context& context, std::coroutine_handle<> coroutine) noexcept {
  return context.cancellations >= prompt_cancellations && yield_cancelled(context, coroutine);
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
/// Notes, when a wait in `context` gives the error of other work whose end it has taken, that this
/// is no error of the wait: with_timeout() passes it on if it is a cancellation. `context` may be
/// null.
[[gnu::cold]] void note_taken_error(const task_context* context) noexcept;
/// As error_for(), for the error of a task that the coroutine has taken.
[[gnu::cold]] std::exception_ptr error_of_taken(const task_context& taker,
                                                std::exception_ptr error) noexcept;
/// `error` for ordinary code: std::system_error in place of cancellation().
[[gnu::cold]] std::exception_ptr error_outside(std::exception_ptr error) noexcept;
/// `error`, which another coroutine gets: std::system_error in place of any operation_cancelled.
[[gnu::cold]] std::exception_ptr error_for_others(std::exception_ptr error) noexcept;
/// The exception being handled, for ordinary code.
[[gnu::cold]] std::exception_ptr current_exception_outside() noexcept;

}  // namespace gyre::detail

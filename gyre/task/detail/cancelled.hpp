// SPDX-License-Identifier: Apache-2.0
// The errors of waits: failures, and the cancellation of a coroutine that was asked to stop.
#pragma once

#include <gyre/task/context.hpp>
#include <gyre/task/operation_cancelled.hpp>

#include <coroutine>
#include <cstdint>
#include <exception>
#include <system_error>

namespace gyre::detail {

/// After `prompt_cancellations` swallowed cancellations a wait yields before it throws again; at
/// `max_cancellations` the program ends. See docs/design/coroutines.md.
inline constexpr std::uint32_t prompt_cancellations = 100;
inline constexpr std::uint32_t max_cancellations = 100'000;

/// Throws the exception of a wait that failed with `error` in `context`, which is null for a
/// coroutine without one: operation_cancelled if the coroutine was asked to stop and `error` is
/// operation_canceled, else std::system_error, with `function_name` unless that is null.
[[noreturn, gnu::cold]] void throw_failure(std::error_code error, const task_context* context,
                                           const char* function_name = nullptr);
/// Calls throw_failure() with std::errc::operation_canceled.
[[noreturn, gnu::cold]] void throw_cancelled(const task_context& context);

/// Returns `error`, for waits that return errors as values, but throws operation_cancelled where
/// throw_failure() does.
[[gnu::cold]] std::error_code failure_value(std::error_code error, const task_context* context);

/// Throws std::system_error for `error`.
[[noreturn, gnu::cold]] void throw_error(std::errc error);

/// Counts a cancellation that the coroutine of `context` receives; ends the program at
/// max_cancellations.
[[gnu::cold]] void count_cancellation(const task_context& context);

/// Posts `coroutine` to its executor. Returns false if the coroutine was not asked to stop, if its
/// executor is the inline executor, or without memory; the wait then ends at once.
[[gnu::cold]] bool yield_cancelled(const task_context& context,
                                   std::coroutine_handle<> coroutine) noexcept;
inline bool gives_way(const task_context& context, std::coroutine_handle<> coroutine) noexcept {
  return context.cancellations >= prompt_cancellations && yield_cancelled(context, coroutine);
}

// A cancellation travels between tasks as one exception_ptr: every operation_cancelled that leaves
// a coroutine becomes cancellation(), which combinators compare and pass on without a throw.

/// Returns the exception_ptr that represents every operation_cancelled.
[[gnu::cold]] const std::exception_ptr& cancellation() noexcept;
/// Returns the exception being handled; cancellation() in place of an operation_cancelled.
[[gnu::cold]] std::exception_ptr caught_error() noexcept;
/// Returns an exception_ptr of std::system_error for `error`.
[[gnu::cold]] std::exception_ptr make_error(std::errc error) noexcept;

/// Returns whether `error` reports a cancellation: operation_cancelled, or
/// std::errc::operation_canceled. Rethrows and catches `error` unless that is cancellation().
[[gnu::cold]] bool is_cancelled(const std::exception_ptr& error) noexcept;

/// Returns the error of the coroutine of `context` for cancelled work that had another stop token:
/// cancellation() if the coroutine itself was asked to stop, else std::system_error. Does not count
/// the cancellation.
[[gnu::cold]] std::exception_ptr cancellation_in(const task_context& context) noexcept;
/// Returns, for the coroutine of `parent`, the `error` of a child that had its own stop token.
/// Counts a cancellation if the parent was asked to stop.
[[gnu::cold]] std::exception_ptr translate_child_error(const task_context& parent,
                                                       std::exception_ptr error) noexcept;
/// Records that a wait in `context` returns the error of other work, so that a cancellation among
/// these errors is not attributed to the wait: with_timeout() passes it on. `context` may be null.
[[gnu::cold]] void note_taken_error(const task_context* context) noexcept;
/// Returns translate_child_error(`taker`, `error`), for the error of a task that the coroutine of
/// `taker` received, and calls note_taken_error().
[[gnu::cold]] std::exception_ptr translate_taken_error(const task_context& taker,
                                                       std::exception_ptr error) noexcept;
/// Returns `error` for a caller that is not a coroutine: std::system_error in place of
/// cancellation().
[[gnu::cold]] std::exception_ptr error_outside(std::exception_ptr error) noexcept;
/// Returns `error` for another coroutine: std::system_error in place of any operation_cancelled.
[[gnu::cold]] std::exception_ptr error_for_others(std::exception_ptr error) noexcept;
/// Returns the exception being handled, for a caller that is not a coroutine: see error_outside().
[[gnu::cold]] std::exception_ptr current_exception_outside() noexcept;

}  // namespace gyre::detail

// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/cancelled.hpp>

#include <gyre/task/async_backtrace.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/executor.hpp>

#include <cxxabi.h>

#include <cstdio>
#include <typeinfo>

namespace gyre::detail {
namespace {

bool is_stop(std::error_code error, const task_context* context) noexcept {
  return context != nullptr && error == std::errc::operation_canceled && !context->reports_stops &&
         context->stop.stop_requested();
}

[[noreturn]] void end_program(const task_context& context) noexcept {
  static_cast<void>(std::fprintf(
      stderr,
      "gyre: a coroutine that was asked to stop swallowed gyre::operation_cancelled %u times and "
      "went on; let it pass, or end catch (...) with throw;\n",
      static_cast<unsigned>(max_cancellations)));
  try {
    const async_backtrace trace(context);
    static_cast<void>(
        std::fprintf(stderr, "%s%s", trace.name().c_str(), trace.name().empty() ? "" : ":\n"));
    static_cast<void>(std::fputs(trace.to_string().c_str(), stderr));
  } catch (...) {  // NOLINT: without memory, without the trace
  }
  std::terminate();
}

// Creates the exception_ptr of cancellation() when the program starts, because memory may be
// exhausted at the first stop.
[[maybe_unused]] const std::exception_ptr& made_at_start = cancellation();

}  // namespace

void count_cancellation(const task_context& context) {
  context.has_taken_cancellation = false;
  if (++context.cancellations >= max_cancellations) end_program(context);
}

void throw_failure(std::error_code error, const task_context* context, const char* function_name) {
  if (is_stop(error, context)) {
    count_cancellation(*context);
    throw operation_cancelled();
  }
  if (function_name != nullptr) throw std::system_error(error, function_name);
  throw std::system_error(error);
}

void throw_cancelled(const task_context& context) {
  throw_failure(std::make_error_code(std::errc::operation_canceled), &context);
}

std::error_code failure_value(std::error_code error, const task_context* context) {
  if (is_stop(error, context)) throw_cancelled(*context);
  return error;
}

void throw_error(std::errc error) { throw std::system_error(std::make_error_code(error)); }

// The inline executor has no queue to which a coroutine could yield. Without memory for the
// resumption the wait ends at once.
bool yield_cancelled(const task_context& context, std::coroutine_handle<> coroutine) noexcept {
  return context.stop.stop_requested() && context.where != &inline_executor() &&
         post_resumption(coroutine, *context.where);
}

const std::exception_ptr& cancellation() noexcept {
  // The exception_ptr is never destroyed: threads may outlive the program's static objects.
  union never_destroyed {
    never_destroyed() noexcept : error(std::make_exception_ptr(operation_cancelled())) {}
    ~never_destroyed() {}  // NOLINT: not defaulted, as that would destroy the member
    std::exception_ptr error;
  };
  static const never_destroyed holder;
  return holder.error;
}

std::exception_ptr caught_error() noexcept {
  const std::type_info* const type = abi::__cxa_current_exception_type();
  const bool is_stop = type != nullptr && *type == typeid(operation_cancelled);
  return is_stop ? cancellation() : std::current_exception();
}

std::exception_ptr make_error(std::errc error) noexcept {
  return std::make_exception_ptr(std::system_error(std::make_error_code(error)));
}

bool is_cancelled(const std::exception_ptr& error) noexcept {
  if (error == nullptr || error == cancellation()) return error != nullptr;
  try {
    std::rethrow_exception(error);
  } catch (const operation_cancelled&) {
    return true;
  } catch (const std::system_error& failure) {
    return failure.code() == std::errc::operation_canceled;
  } catch (...) {
    return false;
  }
}

std::exception_ptr cancellation_in(const task_context& context) noexcept {
  return context.stop.stop_requested() ? cancellation() : make_error(std::errc::operation_canceled);
}

std::exception_ptr translate_child_error(const task_context& parent,
                                         std::exception_ptr error) noexcept {
  if (error != cancellation()) return error;
  if (parent.stop.stop_requested()) count_cancellation(parent);
  return cancellation_in(parent);
}

void note_taken_error(const task_context* context) noexcept {
  // Coroutines without a context share no_context(), which is constant.
  if (context != nullptr && context != &no_context()) context->has_taken_cancellation = true;
}

std::exception_ptr translate_taken_error(const task_context& taker,
                                         std::exception_ptr error) noexcept {
  error = translate_child_error(taker, std::move(error));
  note_taken_error(&taker);
  return error;
}

std::exception_ptr error_outside(std::exception_ptr error) noexcept {
  return error == cancellation() ? make_error(std::errc::operation_canceled) : error;
}

std::exception_ptr error_for_others(std::exception_ptr error) noexcept {
  try {
    std::rethrow_exception(std::move(error));
  } catch (...) {
    return current_exception_outside();
  }
}

std::exception_ptr current_exception_outside() noexcept { return error_outside(caught_error()); }

}  // namespace gyre::detail

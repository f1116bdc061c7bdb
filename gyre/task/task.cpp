// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/task.hpp>

#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/spawn.hpp>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>

namespace gyre::detail {

void throw_empty_task() {
  throw std::logic_error(
      "gyre::task: awaited a task that is empty (moved from, or awaited before)");
}

std::exception_ptr missing_result() {
  return std::make_exception_ptr(
      std::logic_error("gyre::task: the coroutine ended without co_return"));
}

// The function is compiled into every library, because the program's compiler may be older than the
// library's.
void abort_for_misplaced_frame() noexcept {
  std::fputs(
      "gyre::task: a coroutine without local variables awaits in a condition, for which this "
      "version of GCC makes wrong code (GCC bug 106188). Give the result a name: "
      "const auto result = co_await ...; if (result) ...\n",
      stderr);
  std::abort();
}

void rethrow_and_clear(std::exception_ptr& error) {
  const std::exception_ptr thrown = std::move(error);
  std::destroy_at(&error);
  std::rethrow_exception(thrown);
}

std::coroutine_handle<> end_failed_or_unawaited(task_promise_base& promise,
                                                std::coroutine_handle<> self) noexcept {
  task_context& context = *promise.context;
  if (const std::coroutine_handle<> next = promise.end->continuation()) {
    self.destroy();
    return next;
  }
  if (!promise.end->is_detached()) promise.end->end_without_continuation();
  announce_end(context);
  self.destroy();
  return context.finished(context);
}

void end_detached(const std::exception_ptr& error) noexcept {
  if (error != cancellation()) terminate_detached(error);
}

void fail_detached(const task_end& end, const std::exception_ptr& error) noexcept {
  static_cast<const detached_end&>(end).receive_error(error);
}

void fail_detached(const task_end& end) noexcept { fail_detached(end, caught_error()); }

void catch_into(std::exception_ptr* error) noexcept { std::construct_at(error, caught_error()); }

}  // namespace gyre::detail

// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/request_awaiter.hpp>

#include <string>

namespace gyre::io::detail {

void throw_failure(std::error_code error, const task_context* context, refusal reason,
                   const char* operation) {
  if (reason == refusal::none) gyre::detail::throw_failure(error, context, operation);
  const char* const why = reason == refusal::closed      ? ": it is closed"
                          : reason == refusal::elsewhere ? ": not on the thread of its loop"
                                                         : ": another coroutine does so already";
  throw std::system_error(error, operation + std::string(why));
}

std::error_code current_error() noexcept {
  try {
    throw;
  } catch (const std::system_error& error) {
    return error.code();
  } catch (const std::bad_alloc&) {
    return std::make_error_code(std::errc::not_enough_memory);
  }
}

bool may_use(const event_loop& loop, const executor& executor) noexcept {
  if (loop.in_loop_thread()) return true;
  // Ordinary code, before the loop runs.
  return &executor == &inline_executor() && event_loop::current() == nullptr;
}

}  // namespace gyre::io::detail

// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/require_timers.hpp>

#include <string>
#include <system_error>

namespace gyre::detail {

void throw_no_timers(const char* name) {
  throw std::system_error(std::make_error_code(std::errc::operation_not_supported),
                          std::string(name) + ": no timers here: use sync_wait(loop, ...)");
}

timer_service& require_timers(const task_context& context, const char* name) {
  timer_service* const timers = context.where->timers();
  if (timers == nullptr) throw_no_timers(name);
  return *timers;
}

}  // namespace gyre::detail

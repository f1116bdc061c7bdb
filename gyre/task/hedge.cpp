// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/hedge.hpp>

#include <stdexcept>
#include <string>
#include <system_error>

namespace gyre::detail {

void check(const hedge_options& options) {
  if (options.delay <= std::chrono::nanoseconds{0}) {
    throw std::invalid_argument("gyre::hedge: the delay is " +
                                std::to_string(options.delay.count()) +
                                " ns; it must be positive (first_success() starts all at once)");
  }
  if (options.attempts == 0) {
    throw std::invalid_argument("gyre::hedge: attempts is zero; it must be at least 1");
  }
}

timer_service& timers_for_hedge(const child_group& group) {
  timer_service* const timers = group.parent().where->timers();
  if (timers != nullptr) return *timers;
  throw std::system_error(std::make_error_code(std::errc::operation_not_supported),
                          "gyre::hedge: no timers here: use sync_wait(loop, ...)");
}

}  // namespace gyre::detail

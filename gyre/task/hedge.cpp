// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/hedge.hpp>

#include <stdexcept>
#include <string>

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

}  // namespace gyre::detail

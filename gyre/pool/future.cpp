// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/future.hpp>

#include <stdexcept>

namespace gyre::detail {

void throw_empty_future() {
  throw std::logic_error(
      "gyre::future: used without a task (default, moved from, or asked for its result before)");
}

}  // namespace gyre::detail

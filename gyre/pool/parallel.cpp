// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/parallel.hpp>

#include <system_error>

namespace gyre::detail {

void throw_executor_waits_below() {
  throw std::system_error(
      std::make_error_code(std::errc::resource_deadlock_would_occur),
      "gyre: a parallel algorithm for an executor whose operation waits below it in the stack");
}

}  // namespace gyre::detail

// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/future.hpp>

#include <stdexcept>

namespace gyre::detail {

void throw_empty_future() {
  throw std::logic_error(
      "gyre::future: has no task: default-constructed, moved from, or get() was called");
}

}  // namespace gyre::detail

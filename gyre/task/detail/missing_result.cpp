// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/task_state.hpp>

#include <exception>
#include <stdexcept>

namespace gyre::detail {

std::exception_ptr missing_result() {
  return std::make_exception_ptr(
      std::logic_error("gyre::task: the coroutine ended without co_return"));
}

}  // namespace gyre::detail

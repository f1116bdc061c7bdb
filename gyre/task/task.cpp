// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/task.hpp>

#include <stdexcept>

namespace gyre::detail {

void throw_empty_task() {
  throw std::logic_error(
      "gyre::task: awaited a task that is empty (moved from, or awaited before)");
}

void rethrow_and_clear(std::exception_ptr& error) {
  const std::exception_ptr thrown = std::move(error);
  std::destroy_at(&error);
  std::rethrow_exception(thrown);
}

void catch_into(std::exception_ptr* error) noexcept {
  std::construct_at(error, std::current_exception());
}

}  // namespace gyre::detail

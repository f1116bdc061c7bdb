// SPDX-License-Identifier: Apache-2.0
// How a coroutine that waits comes back: through the queue of its executor.
#pragma once

#include <gyre/base/operation.hpp>
#include <gyre/task/detail/transfer.hpp>

#include <coroutine>

namespace gyre::detail {

/// An operation that resumes the coroutine `waiting`. Base of awaiters, which may be moved until
/// they are awaited; so a move makes a new operation.
struct resumption : operation {
  resumption() noexcept
      : operation([](operation& self) { resume(static_cast<resumption&>(self).waiting); }) {}
  resumption(const resumption&) noexcept : resumption() {}
  resumption& operator=(const resumption&) = delete;

  std::coroutine_handle<> waiting;
};

}  // namespace gyre::detail

// SPDX-License-Identifier: Apache-2.0
// error_of: the error with which an awaitable ends, without a loop.
#pragma once

#include <gyre/task/as_expected.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/sync_wait.hpp>

#include <system_error>
#include <utility>

namespace gyre::test {

/// The error of `awaited`; empty if it succeeds.
template <awaitable Awaitable>
std::error_code error_of(Awaitable&& awaited) {
  const auto ended = sync_wait(as_expected(std::forward<Awaitable>(awaited)));
  return ended ? std::error_code() : ended.error();
}

}  // namespace gyre::test

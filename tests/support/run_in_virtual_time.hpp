// SPDX-License-Identifier: Apache-2.0
// Runs a coroutine to its end on a manual_executor, whose time passes as needed.
//
//     gyre::test::manual_executor executor;
//     EXPECT_EQ(run_in_virtual_time(executor, answer_after(24h)), 42);
#pragma once

#include <gyre/task/as_task.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/stop_token.hpp>
#include <tests/support/manual_executor.hpp>

#include <chrono>
#include <future>
#include <stdexcept>
#include <utility>

namespace gyre::test {

/// Returns the result of `work` or throws its exception; throws std::logic_error if `work` still
/// waits after a year.
template <awaitable Awaitable>
task_result_t<Awaitable> run_in_virtual_time(manual_executor& executor, Awaitable work,
                                             inplace_stop_token stop = {}) {
  std::future<task_result_t<Awaitable>> result =
      gyre::spawn_future(executor, std::move(work), stop);
  executor.run_all();
  // The steps grow, so that at most as much time passes in vain as was needed.
  std::chrono::nanoseconds step = std::chrono::microseconds(1);
  while (result.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    if (step > std::chrono::hours(365 * 24)) {
      throw std::logic_error("the coroutine waits for something else than time");
    }
    executor.advance(std::exchange(step, 2 * step));
  }
  return result.get();
}

}  // namespace gyre::test

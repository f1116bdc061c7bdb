// SPDX-License-Identifier: Apache-2.0
// run_in_virtual_time: runs a coroutine to its end on a manual_executor, whose time passes as
// needed, and returns the result.
//
//     EXPECT_EQ(gyre::testing::run_in_virtual_time(answer_after(24h)), 42);  // at once
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/testing/manual_executor.hpp>

#include <chrono>
#include <future>
#include <stdexcept>
#include <utility>

namespace gyre::testing {

/// Runs `work` on `executor` and on the calling thread: operations in the order of their posts and,
/// when none is pending, the timer with the earliest deadline. Returns the result of `work` or
/// rethrows its exception. Other coroutines of the executor run meanwhile.
///
/// Thread-safety: one thread.
/// Lifetime: after an error of run_in_virtual_time itself, `work` is still suspended; objects to
/// which it refers must exist until it is resumed, or until the end of the program.
/// Errors: std::logic_error if `work` has not ended when no operation is pending and no timer is
/// started, because it waits for another thread or for ever; and if it still waits after a year.
template <awaitable Awaitable>
task_result_t<Awaitable> run_in_virtual_time(manual_executor& executor, Awaitable work,
                                             inplace_stop_token stop = {}) {
  const steady_time give_up = gyre::detail::later(executor.now(), std::chrono::hours(365 * 24));
  std::future<task_result_t<Awaitable>> result =
      gyre::spawn_future(executor, std::move(work), stop);
  executor.run_all();
  while (result.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    if (!executor.expire_next()) {
      throw std::logic_error(
          "run_in_virtual_time: the coroutine waits, but no operation is pending and no timer is "
          "started: nothing on this thread can resume it");
    }
    executor.run_all();
    if (executor.now() > give_up) {
      throw std::logic_error("run_in_virtual_time: the coroutine still waits after a year");
    }
  }
  return result.get();
}

/// Runs the coroutine on a new executor, in virtual time.
template <awaitable Awaitable>
task_result_t<Awaitable> run_in_virtual_time(Awaitable work, inplace_stop_token stop = {}) {
  manual_executor executor;
  return run_in_virtual_time(executor, std::move(work), stop);
}

}  // namespace gyre::testing

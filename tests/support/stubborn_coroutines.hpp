// SPDX-License-Identifier: Apache-2.0
// Coroutines that swallow errors and go on, for tests that a stop still ends them.
//
//     int errors = 0;
//     gyre::spawn(executor, log_errors([&] { return receive(stream); }, errors), {.stop = stop});
#pragma once

#include <gyre/task/executor.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <exception>
#include <functional>
#include <stdexcept>
#include <utility>

namespace gyre::test {

/// Awaits `work` again and again, and counts its errors. Gives up after a thousand.
inline task<> log_errors(std::function<task<>()> work, int& errors) {
  for (;;) {
    try {
      co_await work();
    } catch (const std::exception&) {
      if (++errors == 1000) throw std::logic_error("was not ended by the stop");
    }
  }
}

/// Awaits `work` again and again, swallows every exception, and ends when `enough` is true.
inline task<> swallow_everything(std::function<task<>()> work, int& swallowed, const bool& enough) {
  while (!enough) {
    try {
      co_await work();
    } catch (...) {
      ++swallowed;
    }
  }
}

/// Starts swallow_everything() on `home` with the stop token `stop`, followed by a coroutine that
/// sets `enough`. If the first coroutine never yields, the second never runs and the test hangs.
inline void swallow_until_others_run(executor& home, std::function<task<>()> work, int& swallowed,
                                     bool& enough, inplace_stop_token stop) {
  spawn(home, swallow_everything(std::move(work), swallowed, enough), {.stop = stop});
  const auto end = [](bool& flag) -> task<> {
    flag = true;
    co_return;
  };
  spawn(home, end(enough));
}

}  // namespace gyre::test

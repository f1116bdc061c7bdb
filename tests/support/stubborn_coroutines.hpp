// SPDX-License-Identifier: Apache-2.0
// Coroutines that go on whatever happens, for tests that a stop ends them all the same.
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

/// The same, and catches everything, until `enough`.
inline task<> swallow_everything(std::function<task<>()> work, int& swallowed, const bool& enough) {
  while (!enough) {
    try {
      co_await work();
    } catch (...) {
      ++swallowed;
    }
  }
}

/// Starts that on `where`, asked to stop by `stop`, and behind it what says that it is enough: a
/// coroutine that does not give way meets the end of the program instead.
inline void swallow_until_others_run(executor& where, std::function<task<>()> work, int& swallowed,
                                     bool& enough, inplace_stop_token stop) {
  spawn(where, swallow_everything(std::move(work), swallowed, enough), {.stop = stop});
  const auto end = [](bool& flag) -> task<> {
    flag = true;
    co_return;
  };
  spawn(where, end(enough));
}

}  // namespace gyre::test

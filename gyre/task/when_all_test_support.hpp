// SPDX-License-Identifier: Apache-2.0
// Children for the tests of when_all() and when_all_into().
#pragma once

#include <gyre/task/context.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/task.hpp>

#include <stdexcept>
#include <string>

namespace gyre::test {

/// A child that yields and then throws std::runtime_error.
inline task<int> failing(std::string what, int yields) {
  for (int i = 0; i < yields; ++i) co_await yield();
  throw std::runtime_error(what);
}

/// A child that yields until it is asked to stop, and counts that in `stopped`.
inline task<int> patient(int& stopped) {
  const inplace_stop_token stop = co_await current_stop_token();
  while (!stop.stop_requested()) co_await yield();
  ++stopped;
  co_return 0;
}

}  // namespace gyre::test

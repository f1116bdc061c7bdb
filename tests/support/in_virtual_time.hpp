// SPDX-License-Identifier: Apache-2.0
// Shared parts of the tests of started tasks: tasks that sleep or count, the errors of calls, and a
// fixture in virtual time.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

namespace gyre::test {

/// Counts its end, also if it is stopped.
inline task<> sleeps(std::chrono::nanoseconds delay, int& ended) {
  struct at_end {
    int& count;
    ~at_end() { ++count; }
  } const count{ended};
  co_await sleep_for(delay);
}
inline task<> counts(std::atomic<int>& count) {
  ++count;
  co_return;
}

std::error_code error_of(auto&& call) {
  try {
    call();
  } catch (const std::system_error& error) {
    return error.code();
  }
  return {};
}
std::string message_of(auto&& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

class in_virtual_time : public ::testing::Test {
 protected:
  template <awaitable Awaitable>
  task_result_t<Awaitable> run(Awaitable work, inplace_stop_token stop = {}) {
    return gyre::testing::run_in_virtual_time(executor_, std::move(work), stop);
  }
  std::chrono::nanoseconds elapsed() const { return executor_.now() - start_; }

  gyre::testing::manual_executor executor_;
  const steady_time start_ = executor_.now();
  int ended_ = 0;
};

}  // namespace gyre::test

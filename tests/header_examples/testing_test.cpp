// SPDX-License-Identifier: Apache-2.0
// The examples in the comments of testing's headers.
#include <gyre/gyre.hpp>
#include <gyre/testing/virtual_time_loop.hpp>

#include <gtest/gtest.h>

#include <chrono>

namespace testing_test {
namespace {

using namespace std::chrono_literals;

// gyre/testing/virtual_time_loop.hpp
TEST(TestingExamples, ATimerFiresAnHourLaterAtOnce) {
  bool fired = false;
  gyre::testing::virtual_time_loop virtual_time;
  gyre::timer timer(virtual_time.loop, [&] { fired = true; });
  timer.start_after(1h);
  virtual_time.loop.run_once();  // an hour later, at once
  EXPECT_TRUE(fired);
}

}  // namespace
}  // namespace testing_test

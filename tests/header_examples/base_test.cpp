// SPDX-License-Identifier: Apache-2.0
// The examples in the comments of base's headers.
#include <gyre/gyre.hpp>

#include <gtest/gtest.h>

#include <chrono>

namespace base_test {
namespace {

// gyre/base/histogram.hpp
TEST(BaseExamples, HistogramTellsQuantiles) {
  const gyre::steady_time begin{};
  const gyre::steady_time end = begin + std::chrono::nanoseconds(20);
  gyre::histogram took;
  took.record(end - begin);
  const std::chrono::nanoseconds high = took.quantile(0.99);
  EXPECT_EQ(high, std::chrono::nanoseconds(20));
}

// gyre/base/operation.hpp
int greetings = 0;
struct greet : gyre::operation {
  greet() : operation([](operation& self) { static_cast<greet&>(self).hello(); }) {}
  void hello();
};
void greet::hello() { ++greetings; }

TEST(BaseExamples, OperationRunsOncePerPost) {
  greetings = 0;
  gyre::loop loop;
  greet op;
  loop.post(op);
  loop.post([&] { loop.stop(); });
  loop.run();
  EXPECT_EQ(greetings, 1);
}

}  // namespace
}  // namespace base_test

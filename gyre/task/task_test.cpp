// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/task.hpp>

#include <gtest/gtest.h>
#include <gyre/task/sync_wait.hpp>

namespace {

gyre::task<int> ready(int value) { co_return value; }

gyre::task<long> sum_of_ready(long count) {
  long sum = 0;
  for (long i = 0; i < count; ++i) sum += co_await ready(1);
  co_return sum;
}

TEST(Task, TenMillionAwaitsOfReadyTasksRunInConstantStack) {
  EXPECT_EQ(gyre::sync_wait(sum_of_ready(10'000'000)), 10'000'000);
}

}  // namespace

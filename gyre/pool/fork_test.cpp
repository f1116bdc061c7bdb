// SPDX-License-Identifier: Apache-2.0
// Tests of fork() on a thread_pool: children that are stolen, wait, fail or are stopped.
#include <gyre/task/fork.hpp>

#include <gyre/pool/thread_pool.hpp>
#include <gyre/task/finally.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/stop_when.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/when_all.hpp>
#include <tests/support/forking_tree.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <system_error>
#include <utility>

namespace pool_fork_test {
namespace {

using namespace std::chrono_literals;
using gyre::sync_wait;
using gyre::task;

task<int> fibonacci(int n) {
  if (n < 2) co_return n;
  auto left = co_await gyre::fork(fibonacci(n - 1));
  const int right = co_await fibonacci(n - 2);
  const int result = co_await std::move(left);
  co_return result + right;
}

TEST(PoolFork, WorkersStealWhatTheyCan) {
  for (const auto scheduler : {gyre::scheduler::stealing, gyre::scheduler::blocking}) {
    gyre::thread_pool pool({.workers = 2, .scheduler = scheduler});
    for (int round = 0; round < 10; ++round) {
      EXPECT_EQ(sync_wait(gyre::on(pool, fibonacci(16))), 987);
    }
  }
}

TEST(PoolFork, ComesTogetherOverAndOver) {
  gyre::thread_pool pool(3);
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> failed = 0;
    EXPECT_EQ(sync_wait(gyre::on(pool, gyre::test::forking_tree(8, failed))), 256);
    EXPECT_EQ(failed, 255);
  }
}

task<> sleeps_or_forks(int depth, std::atomic<int>& stopped) {
  if (depth == 0) {
    try {
      co_await gyre::sleep_for(1h);
    } catch (const gyre::operation_cancelled&) {
      ++stopped;
      throw;
    }
    co_return;
  }
  auto left = co_await gyre::fork(sleeps_or_forks(depth - 1, stopped));
  co_await gyre::finally(sleeps_or_forks(depth - 1, stopped), left.join());
  co_await std::move(left);
}

TEST(PoolFork, AStopReachesAllChildrenThroughFinally) {
  gyre::thread_pool pool(2);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> stopped = 0;
    gyre::inplace_stop_source stop;
    const auto press = [](gyre::inplace_stop_source& button) -> task<> {
      co_await gyre::sleep_for(1ms);
      button.request_stop();
    };
    const auto root = [&]() -> task<> {
      auto work = gyre::stop_when(sleeps_or_forks(4, stopped), stop.get_token());
      const auto [ended, pressed] = co_await gyre::when_all_ready(std::move(work), press(stop));
      EXPECT_FALSE(ended.has_value());
    };
    sync_wait(gyre::on(pool, root()));
    EXPECT_LE(stopped, 16);
  }
}

TEST(PoolFork, AWaitingHandleMovesToAnotherPool) {
  gyre::thread_pool first(2);
  gyre::thread_pool second(2);
  const auto parent = [](gyre::executor& there) -> task<bool> {
    auto child = co_await gyre::fork(fibonacci(10));
    auto other = co_await gyre::fork(fibonacci(11));
    co_await gyre::resume_on(there);
    const int a = co_await std::move(child);
    const int b = co_await std::move(other);
    co_return a == 55 && b == 89 && there.running_here();
  };
  for (int round = 0; round < 100; ++round) {
    EXPECT_TRUE(sync_wait(gyre::on(first, parent(second))));
  }
}

}  // namespace
}  // namespace pool_fork_test

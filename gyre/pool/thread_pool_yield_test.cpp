// SPDX-License-Identifier: Apache-2.0
// Tests of a pool whose workers share their processor with another program: this program replaces
// sched_yield(2), so that each yield costs a worker a time slice.
#include <gyre/pool/thread_pool.hpp>

#include <gtest/gtest.h>

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace thread_pool_yield_test {
namespace {

using namespace std::chrono_literals;

constexpr auto time_slice = 200us;

thread_local bool is_worker = false;
std::atomic<int> worker_yields{0};

}  // namespace
}  // namespace thread_pool_yield_test

extern "C" [[gnu::visibility("default")]] int sched_yield() noexcept {
  using namespace thread_pool_yield_test;
  if (!is_worker) return static_cast<int>(::syscall(SYS_sched_yield));
  worker_yields.fetch_add(1, std::memory_order_relaxed);
  const auto end = std::chrono::steady_clock::now() + time_slice;
  while (std::chrono::steady_clock::now() < end) {
  }
  return 0;
}

namespace thread_pool_yield_test {
namespace {

void wait_for_parks(const gyre::thread_pool& pool, std::uint64_t parks) {
  while (pool.metrics().parks < parks) ::sched_yield();
}

// Runs `tasks` tasks, each after the worker has searched in vain and gone to sleep. Returns the
// number of yields of these searches.
int yields_of_failed_searches(int tasks) {
  worker_yields = 0;
  std::atomic<int> runs{0};
  gyre::thread_pool pool({.workers = 1, .on_start = [](std::size_t) { is_worker = true; }});
  std::uint64_t parks = 1;
  wait_for_parks(pool, parks);
  for (int task = 0; task < tasks; ++task) {
    pool.post([&] { ++runs; });
    wait_for_parks(pool, ++parks);
  }
  EXPECT_EQ(runs, tasks);
  return worker_yields;
}

TEST(ThreadPoolYield, WorkersStopYieldingWhenEachYieldCostsATimeSlice) {
  const int first_yields = yields_of_failed_searches(8);
  EXPECT_GE(first_yields, 1) << "the first search of a worker yields";
  EXPECT_LT(yields_of_failed_searches(2000), 10);
}

}  // namespace
}  // namespace thread_pool_yield_test

// SPDX-License-Identifier: Apache-2.0
// Tests that coroutines allocate nothing once they have warmed up: every allocation of this program
// is counted, and the slabs that frames come from are watched.
#include <gyre/task/task.hpp>

#include <gyre/base/slab.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/fork.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/testing/allocations.hpp>
#include <gyre/testing/manual_executor.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <utility>

namespace task_allocation_test {
namespace {

using gyre::sync_wait;
using gyre::task;
using gyre::testing::allocations;

// The number of allocations, and of slabs taken from the system, by a repeated `action` after a
// warm-up: the first up to five repetitions may take slabs, depending on addresses.
template <class Action>
std::size_t allocations_of(Action&& action) {
  for (int warm_up = 0; warm_up < 20; ++warm_up) action();
  const std::size_t before = allocations();
  const std::size_t slabs_before = gyre::read_slab_stats().slabs_mapped;
  action();
  return allocations() - before + (gyre::read_slab_stats().slabs_mapped - slabs_before);
}

[[gnu::noinline]] task<int> links(int depth) {
  if (depth == 0) co_return 0;
  const int below = co_await links(depth - 1);
  co_return below + 1;
}

task<> yields_and_hops(gyre::executor& there, int times) {
  gyre::executor& home = co_await gyre::current_executor();
  for (int i = 0; i < times; ++i) {
    co_await gyre::yield();
    co_await gyre::resume_on(there);
    co_await gyre::resume_on(home);
  }
}

TEST(TaskAllocation, ChainAllocatesNothing) {
  EXPECT_EQ(allocations_of([] { EXPECT_EQ(sync_wait(links(1000)), 1000); }), 0);
}

task<int> forks(int depth) {
  if (depth == 0) co_return 1;
  auto child = co_await gyre::fork(forks(depth - 1));
  const int other = co_await forks(depth - 1);
  const int result = co_await std::move(child);
  co_return result + other;
}

TEST(TaskAllocation, ForksAllocateNothing) {
  EXPECT_EQ(allocations_of([] { EXPECT_EQ(sync_wait(forks(8)), 256); }), 0);
}

TEST(TaskAllocation, AwaitsInARowAllocateNothing) {
  auto awaits = []() -> task<> {
    for (int i = 0; i < 1000; ++i) co_await links(1);
  };
  EXPECT_EQ(allocations_of([&] { sync_wait(awaits()); }), 0);
}

TEST(TaskAllocation, YieldsAndHopsAllocateNothing) {
  EXPECT_EQ(allocations_of([] { sync_wait(yields_and_hops(gyre::inline_executor(), 1000)); }), 0);
}

TEST(TaskAllocation, OnAllocatesNothing) {
  EXPECT_EQ(allocations_of([] { sync_wait(gyre::on(gyre::inline_executor(), links(10))); }), 0);
}

TEST(TaskAllocation, SpawnAllocatesNothing) {
  gyre::testing::manual_executor executor;
  auto spawns = [&] {
    for (int i = 0; i < 1000; ++i) gyre::spawn(executor, links(3));
    EXPECT_EQ(executor.run_all(), 1000);
  };
  EXPECT_EQ(allocations_of(spawns), 0);
}

// Without the count of allocations the other tests could not fail.
TEST(TaskAllocation, AllocationsAreCounted) {
  EXPECT_EQ(allocations_of([] {
              int* volatile number = new int(1);
              delete number;
            }),
            1);
}

}  // namespace
}  // namespace task_allocation_test

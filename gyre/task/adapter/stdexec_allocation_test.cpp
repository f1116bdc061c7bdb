// SPDX-License-Identifier: Apache-2.0
// Tests that awaiting a sender allocates nothing, and a task as a sender only the task's frame.
#include <gyre/task/adapter/stdexec.hpp>

#include <gyre/base/slab.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/testing/allocations.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <utility>

namespace stdexec_allocation_test {
namespace {

namespace ex = stdexec;
using gyre::task;

// The number of allocations, and of slabs taken from the system, by an action after a warm-up.
template <class Action>
std::size_t allocations_of(Action&& action) {
  for (int warm_up = 0; warm_up < 20; ++warm_up) action();
  const std::size_t before = gyre::testing::allocations();
  const std::size_t slabs_before = gyre::read_slab_stats().slabs_mapped;
  action();
  return gyre::testing::allocations() - before +
         (gyre::read_slab_stats().slabs_mapped - slabs_before);
}

TEST(SenderAllocation, AwaitingASenderAllocatesNothing) {
  auto awaits = [](gyre::executor& there) -> task<> {
    for (int i = 0; i < 1000; ++i) {
      auto inline_value = gyre::from_sender(ex::just(i));
      const int value = co_await std::move(inline_value);
      EXPECT_EQ(value, i);
      auto posted = gyre::from_sender(ex::schedule(gyre::as_scheduler(there)));
      co_await std::move(posted);
    }
  };
  EXPECT_EQ(allocations_of([&] { gyre::sync_wait(awaits(gyre::inline_executor())); }), 0);
}

TEST(SenderAllocation, TaskAsASenderAllocatesItsFrameOnly) {
  auto answers = []() -> task<int> { co_return 42; };
  auto awaits = [&]() -> task<> {
    for (int i = 0; i < 1000; ++i) {
      auto waiting = gyre::from_sender(gyre::as_sender(gyre::inline_executor(), answers()));
      const int value = co_await std::move(waiting);
      EXPECT_EQ(value, 42);
    }
  };
  EXPECT_EQ(allocations_of([&] { gyre::sync_wait(awaits()); }), 0);
}

}  // namespace
}  // namespace stdexec_allocation_test

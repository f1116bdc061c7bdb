// SPDX-License-Identifier: Apache-2.0
//
// Tests of the lock-free intrusive stack.
#include <gyre/base/intrusive_stack.hpp>

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace intrusive_stack_test {
namespace {

struct item : gyre::intrusive_node {
  int producer = 0;
  int number = 0;
};

using stack = gyre::atomic_intrusive_stack<item>;

TEST(AtomicIntrusiveStack, PopAllReturnsTheOrderOfPushes) {
  std::vector<item> items(4);
  stack pushed;
  for (item& each : items) pushed.push(each);
  auto popped = pushed.pop_all();
  for (item& each : items) EXPECT_EQ(popped.pop_front(), &each);
  EXPECT_TRUE(popped.empty());
  EXPECT_TRUE(pushed.empty());
  EXPECT_TRUE(pushed.pop_all().empty());
}

TEST(AtomicIntrusiveStack, PushTellsWhetherItWasTheFirst) {
  item a, b, c;
  stack pushed;
  EXPECT_TRUE(pushed.push(a));
  EXPECT_FALSE(pushed.push(b));
  EXPECT_FALSE(pushed.pop_all().empty());
  EXPECT_TRUE(pushed.push(c));
}

TEST(AtomicIntrusiveStack, EveryElementArrivesOnceAndInItsProducersOrder) {
  constexpr int producers = 3;
  constexpr int each = 20'000;
  std::vector<std::vector<item>> items(producers, std::vector<item>(each));
  stack shared;
  std::vector<std::thread> threads;
  for (int p = 0; p < producers; ++p) {
    threads.emplace_back([&shared, &mine = items[static_cast<std::size_t>(p)], p] {
      for (int i = 0; i < each; ++i) {
        item& pushed = mine[static_cast<std::size_t>(i)];
        pushed.producer = p;
        pushed.number = i;
        shared.push(pushed);
      }
    });
  }
  std::vector<int> next(producers, 0);
  for (int received = 0; received < producers * each;) {
    auto batch = shared.pop_all();
    if (batch.empty()) gyre::detail::thread_yield();
    while (const item* got = batch.pop_front()) {
      ASSERT_EQ(got->number, next[static_cast<std::size_t>(got->producer)]++);
      ++received;
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(shared.empty());
}

}  // namespace
}  // namespace intrusive_stack_test

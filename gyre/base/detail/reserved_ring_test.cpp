// SPDX-License-Identifier: Apache-2.0
// Tests of the queue whose room is reserved.
#include <gyre/base/detail/reserved_ring.hpp>

#include <gyre/base/detail/sanitizer.hpp>
#include <tests/support/sanitizers.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <fstream>

namespace {

using gyre::detail::reserved_ring;

std::size_t resident_bytes() {
  std::size_t size = 0;
  std::size_t resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(ReservedRing, ValuesLeaveInTheirOrderAlsoWhenItGrows) {
  reserved_ring<int> queue;
  int pushed = 0;
  int popped = 0;
  for (int room = 1; room < 200; ++room) {
    queue.reserve(static_cast<std::size_t>(room));
    while (queue.size() < static_cast<std::size_t>(room)) queue.push(pushed++);
    for (int i = 0; i < room / 3; ++i) ASSERT_EQ(queue.pop(), popped++);
  }
  while (!queue.empty()) ASSERT_EQ(queue.pop(), popped++);
  EXPECT_EQ(popped, pushed);
}

TEST(ReservedRing, FindsItsValuesByTheirNumbers) {
  reserved_ring<int> queue;
  queue.reserve(4);
  const std::uint32_t first = queue.push(10);
  const std::uint32_t second = queue.push(11);
  queue[second] = 12;
  EXPECT_EQ(queue.pop(), 10);
  EXPECT_FALSE(queue.has(first));
  EXPECT_TRUE(queue.has(second));
  EXPECT_FALSE(queue.has(second + 1));
  EXPECT_EQ(queue.pop(), 12);
  EXPECT_FALSE(queue.has(second));
}

TEST(ReservedRing, AnEmptyOneBeginsAgainAtTheFront) {
  reserved_ring<int> queue;
  queue.reserve(8);
  const std::uint32_t first = queue.push(1);
  queue.pop();
  EXPECT_EQ(queue.push(2), first);
}

TEST(ReservedRing, FindsItsValuesByTheirNumbersAfterItUsesMoreSlots) {
  reserved_ring<std::uint32_t> queue;
  queue.reserve(1000);
  std::uint32_t first = queue.push(0);
  std::uint32_t next = first + 1;
  for (std::uint32_t size = 1; size < 500; ++size) {
    while (queue.size() < size) {
      ASSERT_EQ(queue.push(next), next);
      ++next;
    }
    for (std::uint32_t number = first; number != next; ++number) ASSERT_EQ(queue[number], number);
    for (std::uint32_t i = 0; i < 3; ++i) {
      ASSERT_EQ(queue.push(next), next);
      ++next;
      ASSERT_EQ(queue.pop(), first++);
    }
  }
}

// An idle server's queues have room for all connections. A server that always has something to do
// never empties its queues.
TEST(ReservedRing, RoomThatWasNeverUsedTakesNoMemory) {
  if (gyre::detail::asan_is_on || gyre::test::thread_sanitizer_is_on) {
    GTEST_SKIP() << "the sanitizer notes all memory";
  }
  struct value {
    value() noexcept : number(1) {}
    explicit value(int of) noexcept : number(of) {}
    int number;
  };
  constexpr std::size_t room = std::size_t{1} << 24;
  reserved_ring<value> queue;
  const std::size_t before = resident_bytes();
  queue.reserve(room);
  for (int i = 0; i < 10'000; ++i) {
    queue.push(value(i));
    ASSERT_EQ(queue.pop().number, i);
  }
  EXPECT_LT(resident_bytes(), before + room * sizeof(value) / 4);
  queue.push(value(0));
  for (int i = 1; i < static_cast<int>(room); ++i) {
    queue.push(value(i));
    ASSERT_EQ(queue.pop().number, i - 1);
  }
  EXPECT_LT(resident_bytes(), before + room * sizeof(value) / 4);
}

}  // namespace

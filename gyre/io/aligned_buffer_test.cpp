// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/aligned_buffer.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <stdexcept>
#include <utility>

namespace aligned_buffer_test {
namespace {

using gyre::io::aligned_buffer;

TEST(AlignedBuffer, BeginsAndEndsAtMultiplesOfItsAlignment) {
  for (const std::size_t alignment : {1UZ, 2UZ, 512UZ, 4096UZ, 65'536UZ}) {
    for (const std::size_t size : {1UZ, 511UZ, 4096UZ, 100'000UZ}) {
      aligned_buffer buffer(size, alignment);
      EXPECT_GE(buffer.size(), size);
      EXPECT_LT(buffer.size(), size + alignment);
      EXPECT_EQ(buffer.size() % alignment, 0U);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.bytes().data()) % alignment, 0U);
      buffer.bytes().back() = std::byte{1};
    }
  }
}

TEST(AlignedBuffer, BeginsAtAHugePageIfItIsLarge) {
  constexpr std::size_t huge_page = std::size_t{2} << 20;
  aligned_buffer buffer(huge_page + 1, 512);
  EXPECT_EQ(buffer.size(), huge_page + 512);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.bytes().data()) % huge_page, 0U);
  buffer.bytes().front() = buffer.bytes().back() = std::byte{1};
}

TEST(AlignedBuffer, MovesWithoutItsBytes) {
  aligned_buffer buffer(100);
  const std::byte* const where = buffer.bytes().data();
  aligned_buffer moved(std::move(buffer));
  EXPECT_EQ(moved.bytes().data(), where);
  moved = aligned_buffer(10'000, 512);
  EXPECT_EQ(moved.size(), 10'240U);
  moved = aligned_buffer();
  EXPECT_TRUE(std::as_const(moved).bytes().empty());
}

TEST(AlignedBuffer, RefusesOtherAlignmentsAndSizesThatOverflow) {
  EXPECT_THROW(aligned_buffer(1, 0), std::invalid_argument);
  EXPECT_THROW(aligned_buffer(1, 1000), std::invalid_argument);
  const std::size_t most = std::numeric_limits<std::size_t>::max();
  EXPECT_THROW(aligned_buffer(most, 4096), std::bad_alloc);
  EXPECT_THROW(aligned_buffer(most, 1), std::bad_alloc);
  EXPECT_THROW(aligned_buffer(most - 4095, 4096), std::bad_alloc);
}

}  // namespace
}  // namespace aligned_buffer_test

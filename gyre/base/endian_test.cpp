// SPDX-License-Identifier: Apache-2.0
//
// Tests of reading and writing integers in a stated byte order.
#include <gyre/base/endian.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>

namespace endian_test {
namespace {

// The data begins behind one byte, so that no integer is aligned.
struct unaligned {
  std::array<std::byte, 9> bytes{};
  std::byte* data() { return bytes.data() + 1; }
  int at(std::size_t index) const { return std::to_integer<int>(bytes[index + 1]); }
};

TEST(Endian, BigEndianPutsTheMostSignificantByteFirst) {
  unaligned memory;
  gyre::store_be(memory.data(), std::uint32_t{0x01020304});
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(memory.at(i), static_cast<int>(i) + 1);
  EXPECT_EQ(gyre::load_be<std::uint32_t>(memory.data()), 0x01020304U);
  EXPECT_EQ(gyre::load_be<std::uint16_t>(memory.data()), 0x0102U);
}

TEST(Endian, LittleEndianPutsTheLeastSignificantByteFirst) {
  unaligned memory;
  gyre::store_le(memory.data(), std::uint32_t{0x04030201});
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(memory.at(i), static_cast<int>(i) + 1);
  EXPECT_EQ(gyre::load_le<std::uint32_t>(memory.data()), 0x04030201U);
  EXPECT_EQ(gyre::load_le<std::uint16_t>(memory.data()), 0x0201U);
}

template <typename T>
class EndianWidth : public testing::Test {};
using widths = testing::Types<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(EndianWidth, widths);

TYPED_TEST(EndianWidth, StoresAndLoadsAndTouchesNothingBeyond) {
  constexpr auto largest = std::numeric_limits<TypeParam>::max();
  for (const TypeParam value : {TypeParam{0}, TypeParam{1}, static_cast<TypeParam>(largest / 3),
                                static_cast<TypeParam>(largest - 1), largest}) {
    unaligned big, little;
    gyre::store_be(big.data(), value);
    gyre::store_le(little.data(), value);
    EXPECT_EQ(gyre::load_be<TypeParam>(big.data()), value);
    EXPECT_EQ(gyre::load_le<TypeParam>(little.data()), value);
    for (std::size_t i = 0; i < sizeof(TypeParam); ++i) {
      EXPECT_EQ(big.at(i), little.at(sizeof(TypeParam) - 1 - i));
    }
    for (std::size_t i = sizeof(TypeParam); i < 8; ++i) EXPECT_EQ(big.at(i), 0);
    EXPECT_EQ(std::to_integer<int>(big.bytes[0]), 0);
  }
}

}  // namespace
}  // namespace endian_test

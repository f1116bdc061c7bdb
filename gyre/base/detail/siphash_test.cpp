// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/siphash.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <vector>

namespace siphash_test {
namespace {

using gyre::detail::siphash;

std::vector<std::byte> counting(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i);
  return bytes;
}

// The key 00 01 … 0f and the first and the last value that the paper's authors publish for it, and
// the value of the paper's appendix A, for the message 00 01 … 0e.
TEST(Siphash, GivesThePublishedValues) {
  const siphash hash({0x0706'0504'0302'0100U, 0x0f0e'0d0c'0b0a'0908U});
  EXPECT_EQ(hash({}), 0x726f'db47'dd0e'0e31U);
  EXPECT_EQ(hash(counting(1)), 0x74f8'39c5'93dc'67fdU);
  EXPECT_EQ(hash(counting(15)), 0xa129'ca61'49be'45e5U);
}

TEST(Siphash, DependsOnTheKeyAndOnEachByte) {
  const auto bytes = counting(16);
  EXPECT_NE(siphash({1, 2})(bytes), siphash({1, 3})(bytes));
  EXPECT_NE(siphash({1, 2})(bytes), siphash({2, 2})(bytes));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const std::span<const std::byte> shorter = std::span(bytes).first(size);
    EXPECT_NE(siphash({1, 2})(shorter), siphash({1, 2})(bytes)) << size;
  }
  EXPECT_NE(siphash::random_key(), siphash::random_key());
}

}  // namespace
}  // namespace siphash_test

// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/constant_time_equal.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

namespace constant_time_equal_test {
namespace {

using gyre::constant_time_equal;

TEST(ConstantTimeEqual, IsTrueForEqualTextsOnly) {
  EXPECT_TRUE(constant_time_equal("", ""));
  EXPECT_TRUE(constant_time_equal("secret", "secret"));
  EXPECT_FALSE(constant_time_equal("secret", ""));
  EXPECT_FALSE(constant_time_equal("", "secret"));
  EXPECT_FALSE(constant_time_equal("secret", "secre"));
  EXPECT_FALSE(constant_time_equal("secre", "secret"));
  EXPECT_FALSE(constant_time_equal("secret", "Secret"));
}

TEST(ConstantTimeEqual, EveryBitOfEveryCharacterCounts) {
  const std::string secret = "0123456789abcdef0";
  for (std::size_t i = 0; i != secret.size(); ++i) {
    for (unsigned bit = 0; bit != 8; ++bit) {
      std::string other = secret;
      other[i] = static_cast<char>(static_cast<unsigned char>(other[i]) ^ (1U << bit));
      EXPECT_FALSE(constant_time_equal(secret, other)) << i << ' ' << bit;
    }
  }
}

}  // namespace
}  // namespace constant_time_equal_test

// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/parse_decimal.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace parse_decimal_test {
namespace {

using gyre::detail::parse_decimal;

TEST(ParseDecimal, TakesWholeTextsOfDigits) {
  EXPECT_EQ(parse_decimal<std::uint16_t>("0"), 0);
  EXPECT_EQ(parse_decimal<std::uint16_t>("0065535"), 65535);
  EXPECT_EQ(parse_decimal<std::int64_t>("-1"), -1);
}

TEST(ParseDecimal, RefusesAllElse) {
  for (const std::string_view text : {"", " 1", "1 ", "+1", "-1", "-", "0x1", "1.5", "65536"}) {
    EXPECT_EQ(parse_decimal<std::uint16_t>(text), std::nullopt) << text;
  }
  EXPECT_EQ(parse_decimal<std::int64_t>("9223372036854775808"), std::nullopt);
}

}  // namespace
}  // namespace parse_decimal_test

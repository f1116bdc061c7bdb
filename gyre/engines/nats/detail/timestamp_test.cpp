// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/detail/timestamp.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <string_view>

namespace timestamp_test {
namespace {

using namespace std::chrono_literals;
using gyre::nats::detail::format_timestamp;
using gyre::nats::detail::parse_timestamp;
using gyre::nats::detail::timestamp;

TEST(NatsTimestamp, ReadsFractionsAndOffsets) {
  const auto second = parse_timestamp("2026-11-29T16:44:00Z");
  ASSERT_TRUE(second);
  EXPECT_EQ(second->time_since_epoch(), 1795970640s);
  EXPECT_EQ(parse_timestamp("2026-11-29T16:44:00.5Z"), *second + 500ms);
  EXPECT_EQ(parse_timestamp("2026-11-29T16:44:00.1234567891Z"), *second + 123456789ns);
  EXPECT_EQ(parse_timestamp("2026-11-29T17:44:00+01:00"), *second);
  EXPECT_EQ(parse_timestamp("2026-11-29T11:14:00-05:30"), *second);
  EXPECT_EQ(parse_timestamp("2026-11-29 16:44:00.000 +0000 UTC"), *second);
}

TEST(NatsTimestamp, WritesTimesThatItReads) {
  for (const timestamp each : {timestamp(), timestamp(-1ns), timestamp(1795970640s + 7ns)}) {
    EXPECT_EQ(parse_timestamp(format_timestamp(each)), each) << format_timestamp(each);
  }
  EXPECT_EQ(format_timestamp(timestamp(1795970640s)), "2026-11-29T16:44:00.000000000Z");
}

TEST(NatsTimestamp, RefusesOtherTexts) {
  for (const std::string_view each :
       {"", "0001-01-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-13-01T00:00:00Z",
        "2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z", "2026-01-01T00:00:61Z",
        "2026-01-01T00:00:00", "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00Zx",
        "2026-01-01X00:00:00Z", "2026-01-01T00:00:0", "9999-01-01T00:00:00Z"}) {
    EXPECT_FALSE(parse_timestamp(each)) << each;
  }
}

}  // namespace
}  // namespace timestamp_test

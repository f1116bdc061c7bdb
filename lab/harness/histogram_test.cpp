// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/histogram.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>

namespace lab {
namespace histogram_test {
namespace {

TEST(Histogram, EmptyHasNoPercentile) {
  const auto empty = std::make_unique<histogram>();
  EXPECT_EQ(empty->total(), 0u);
  EXPECT_EQ(empty->percentile(50), 0u);
  EXPECT_EQ(empty->percentile(100), 0u);
}

TEST(Histogram, SmallValuesAreExact) {
  auto counted = std::make_unique<histogram>();
  for (std::uint64_t value = 1; value <= 100; ++value) counted->record(value);
  EXPECT_EQ(counted->percentile(0), 1u);
  EXPECT_EQ(counted->percentile(1), 1u);
  EXPECT_EQ(counted->percentile(50), 50u);
  EXPECT_EQ(counted->percentile(99), 99u);
  EXPECT_EQ(counted->percentile(100), 100u);
}

TEST(Histogram, EveryMagnitudeIsAtMostOnePartIn64TooHigh) {
  for (unsigned bit = 0; bit < 64; ++bit) {
    for (const std::uint64_t offset : {0ull, 1ull, 3ull}) {
      const std::uint64_t value = (std::uint64_t{1} << bit) + (offset << bit >> 3);
      auto counted = std::make_unique<histogram>();
      counted->record(value);
      const std::uint64_t answer = counted->percentile(50);
      EXPECT_GE(answer, value);
      EXPECT_LE(answer - value, value / 64) << value;
    }
  }
}

TEST(Histogram, LargestValueFits) {
  auto counted = std::make_unique<histogram>();
  counted->record(std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(counted->percentile(100), std::numeric_limits<std::uint64_t>::max());
}

TEST(Histogram, OneOutlierShowsOnlyAboveItsRank) {
  auto counted = std::make_unique<histogram>();
  for (int i = 0; i < 999; ++i) counted->record(10);
  counted->record(1'000'000);
  EXPECT_EQ(counted->percentile(99.9), 10u);
  EXPECT_GE(counted->percentile(99.95), 1'000'000u);
}

TEST(Histogram, MergedEqualsRecordedTogether) {
  auto even = std::make_unique<histogram>();
  auto odd = std::make_unique<histogram>();
  auto all = std::make_unique<histogram>();
  for (std::uint64_t value = 0; value < 100'000; value += 7) {
    (value % 2 == 0 ? even : odd)->record(value);
    all->record(value);
  }
  even->merge(*odd);
  EXPECT_EQ(even->total(), all->total());
  for (const double percent : {0.0, 1.0, 50.0, 90.0, 99.9, 100.0}) {
    EXPECT_EQ(even->percentile(percent), all->percentile(percent)) << percent;
  }
}

}  // namespace
}  // namespace histogram_test
}  // namespace lab

// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/histogram.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <thread>

namespace histogram_test {
namespace {

using namespace std::chrono_literals;
using gyre::histogram;
using std::chrono::nanoseconds;

TEST(Histogram, AnEmptyHistogramHasOnlyZeros) {
  const histogram empty;
  EXPECT_EQ(empty.count(), 0);
  EXPECT_EQ(empty.quantile(0.5), 0ns);
  EXPECT_EQ(empty.quantile(1), 0ns);
  EXPECT_EQ(empty.mean(), 0ns);
  EXPECT_EQ(empty.max(), 0ns);
}

TEST(Histogram, SmallDurationsAreExact) {
  histogram counted;
  for (int value = 0; value < 32; ++value) counted.record(nanoseconds(value));
  EXPECT_EQ(counted.count(), 32);
  for (int value = 0; value < 32; ++value) {
    EXPECT_EQ(counted.quantile((value + 1) / 32.0), nanoseconds(value));
  }
}

TEST(Histogram, EveryMagnitudeIsAtMostOnePartIn32Off) {
  for (unsigned bit = 5; bit < 63; ++bit) {
    for (const std::uint64_t offset : {0U, 1U, 3U, 7U}) {
      const nanoseconds value{(std::uint64_t{1} << bit) + (offset << bit >> 3)};
      histogram counted;
      counted.record(value);
      counted.record(nanoseconds::max());  // so that the longest is not the answer
      const double answer = static_cast<double>(counted.quantile(0.5).count());
      const double exact = static_cast<double>(value.count());
      EXPECT_LE(std::abs(answer - exact), exact / 32) << value.count();
    }
  }
}

TEST(Histogram, LongestAndMeanAreExact) {
  histogram counted;
  counted.record(1'000'001ns);
  counted.record(3'000'003ns);
  EXPECT_EQ(counted.max(), 3'000'003ns);
  EXPECT_EQ(counted.quantile(1), 3'000'003ns);
  EXPECT_EQ(counted.mean(), 2'000'002ns);
}

TEST(Histogram, TheLongestDurationFitsAndLessThanNoneIsNone) {
  histogram counted;
  counted.record(nanoseconds::max());
  EXPECT_EQ(counted.quantile(1), nanoseconds::max());
  counted.record(nanoseconds::min());
  EXPECT_EQ(counted.quantile(0.5), 0ns);
  EXPECT_EQ(counted.count(), 2);
}

TEST(Histogram, NoQuantileExceedsTheLongest) {
  histogram counted;
  counted.record(1025ns);  // below the middle of its bucket
  counted.record(1025ns);
  EXPECT_EQ(counted.quantile(0.5), 1025ns);
}

TEST(Histogram, OneOutlierShowsOnlyAboveItsRank) {
  histogram counted;
  for (int i = 0; i < 999; ++i) counted.record(10ns);
  counted.record(1ms);
  EXPECT_EQ(counted.quantile(0.999), 10ns);
  EXPECT_EQ(counted.quantile(0.9995), 1ms);
}

TEST(Histogram, SharesBeyondTheEndsAreTheEnds) {
  histogram counted;
  counted.record(1ns);
  counted.record(2ns);
  EXPECT_EQ(counted.quantile(-1), 1ns);
  EXPECT_EQ(counted.quantile(2), 2ns);
}

TEST(Histogram, MergedEqualsRecordedTogether) {
  histogram even;
  histogram odd;
  histogram all;
  for (int value = 0; value < 100'000; value += 7) {
    (value % 2 == 0 ? even : odd).record(nanoseconds(value));
    all.record(nanoseconds(value));
  }
  even.merge(odd);
  EXPECT_EQ(even.count(), all.count());
  EXPECT_EQ(even.mean(), all.mean());
  EXPECT_EQ(even.max(), all.max());
  for (const double q : {0.0, 0.01, 0.5, 0.9, 0.999, 1.0}) {
    EXPECT_EQ(even.quantile(q), all.quantile(q)) << q;
  }
}

TEST(Histogram, ACopyIsOnItsOwn) {
  histogram counted;
  counted.record(5ns);
  histogram copy = counted;
  copy.record(7ns);
  EXPECT_EQ(counted.count(), 1);
  counted = copy;
  EXPECT_EQ(counted.count(), 2);
  EXPECT_EQ(counted.max(), 7ns);
  const histogram& itself = counted;
  counted = itself;
  EXPECT_EQ(counted.count(), 2);
}

TEST(Histogram, CountsDurationsWithinALimit) {
  histogram counted;
  for (int i = 1; i <= 1000; ++i) counted.record(std::chrono::microseconds(i));
  EXPECT_EQ(counted.count_within(-1ns), 0);
  EXPECT_EQ(counted.count_within(0ns), 0);
  EXPECT_EQ(counted.count_within(1h), 1000);
  EXPECT_EQ(counted.count_within(gyre::duration::max()), 1000);
  for (const int limit : {10, 100, 500, 900}) {
    const auto exact = static_cast<double>(limit);
    const auto count = counted.count_within(std::chrono::microseconds(limit));
    EXPECT_NEAR(static_cast<double>(count), exact, exact / 32 + 1) << limit;
  }
  EXPECT_EQ(counted.sum(), 500'500us);
}

TEST(Histogram, IsReadWhileItIsRecorded) {
  histogram counted;
  std::atomic<bool> done = false;
  {
    const std::jthread recorder([&] {
      for (int i = 1; i <= 20'000; ++i) counted.record(nanoseconds(i));
      done = true;
    });
    std::uint64_t last = 0;
    while (!done) {
      const std::uint64_t count = counted.count();
      EXPECT_GE(count, last);
      EXPECT_LE(counted.quantile(0.5), 20'000ns);
      last = count;
    }
  }
  EXPECT_EQ(counted.count(), 20'000);
}

}  // namespace
}  // namespace histogram_test

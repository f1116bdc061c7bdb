// SPDX-License-Identifier: Apache-2.0
// Tests of ranges.
#include <gyre/http/range.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace range_test {
namespace {

using gyre::http::byte_range;
using gyre::http::byte_ranges;
using gyre::http::range_outcome;

std::vector<byte_range> parts(std::string_view header, std::uint64_t size = 100) {
  const auto ranges = byte_ranges::parse(header, size);
  EXPECT_EQ(ranges.outcome(), range_outcome::partial) << header;
  return {ranges.begin(), ranges.end()};
}

range_outcome outcome(std::string_view header, std::uint64_t size = 100) {
  return byte_ranges::parse(header, size).outcome();
}

TEST(ByteRanges, AreCutAtTheEnd) {
  EXPECT_EQ(parts("bytes=0-9"), (std::vector<byte_range>{{0, 10}}));
  EXPECT_EQ(parts("bytes=90-"), (std::vector<byte_range>{{90, 10}}));
  EXPECT_EQ(parts("bytes=90-1000"), (std::vector<byte_range>{{90, 10}}));
  EXPECT_EQ(parts("bytes=-5"), (std::vector<byte_range>{{95, 5}}));
  EXPECT_EQ(parts("bytes=-500"), (std::vector<byte_range>{{0, 100}}));
  EXPECT_EQ(parts("bytes=99-99"), (std::vector<byte_range>{{99, 1}}));
  EXPECT_EQ(parts("BYTES= 0-0 , 5-6,,"), (std::vector<byte_range>{{0, 1}, {5, 2}}));
  EXPECT_EQ(parts("bytes=5-99999999999999999999999"), (std::vector<byte_range>{{5, 95}}));
  EXPECT_EQ(parts("bytes=0-18446744073709551615", UINT64_MAX),
            (std::vector<byte_range>{{0, UINT64_MAX}}));
}

TEST(ByteRanges, OverlappingOnesAreJoined) {
  EXPECT_EQ(parts("bytes=0-9,5-14"), (std::vector<byte_range>{{0, 15}}));
  EXPECT_EQ(parts("bytes=0-4,5-9"), (std::vector<byte_range>{{0, 10}}));
  EXPECT_EQ(parts("bytes=50-59,0-9,60-69,200-300"), (std::vector<byte_range>{{50, 20}, {0, 10}}));
  EXPECT_EQ(parts("bytes=0-9,20-29,40-49,5-45"), (std::vector<byte_range>{{0, 50}}));
  EXPECT_EQ(parts("bytes=-10,0-,"), (std::vector<byte_range>{{0, 100}}));
}

TEST(ByteRanges, BehindTheEndAreNotSatisfiable) {
  EXPECT_EQ(outcome("bytes=100-"), range_outcome::not_satisfiable);
  EXPECT_EQ(outcome("bytes=100-200,300-"), range_outcome::not_satisfiable);
  EXPECT_EQ(outcome("bytes=-0"), range_outcome::not_satisfiable);
  EXPECT_EQ(outcome("bytes=99999999999999999999-"), range_outcome::not_satisfiable);
  EXPECT_EQ(outcome("bytes=0-", 0), range_outcome::whole);
}

TEST(ByteRanges, OtherHeadersAreIgnored) {
  for (const std::string_view each :
       {"", "bytes", "bytes=", "bytes=,", "items=0-9", "bytes=a-b", "bytes=-", "bytes=--1",
        "bytes=9-0", "bytes=0", "bytes=0-9-", "bytes=+1-2", "bytes=0 -9", "bytes=0-9;", "bytes 0-9",
        "bytes=0-9,x"}) {
    EXPECT_EQ(outcome(each), range_outcome::whole) << each;
  }
  std::string many = "bytes=0-0";
  for (int i = 1; i < 16; ++i) many += ',' + std::to_string(i * 2) + '-' + std::to_string(i * 2);
  EXPECT_EQ(parts(many).size(), 16U);
  EXPECT_EQ(outcome(many + ",0-0"), range_outcome::whole);
}

TEST(ByteRanges, AreNamedInResponses) {
  EXPECT_EQ(gyre::http::content_range({5, 10}, 100), "bytes 5-14/100");
  EXPECT_EQ(gyre::http::unsatisfied_content_range(7), "bytes */7");
}

}  // namespace
}  // namespace range_test

// SPDX-License-Identifier: Apache-2.0
// Tests of the choice of a coding.
#include <gyre/http/content_coding.hpp>

#include <gyre/http/detail/quality.hpp>

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace content_coding_test {
namespace {

using gyre::http::content_coding;
using gyre::http::content_coding_of;
using gyre::http::negotiate_coding;

TEST(ContentCoding, BestQualityIsChosen) {
  using enum content_coding;
  for (const auto& [header, expected] :
       std::vector<std::pair<std::string_view, std::optional<content_coding>>>{
           {"", identity},
           {"gzip", gzip},
           {"gzip, deflate, br, zstd", br},
           {"gzip, zstd", zstd},
           {"GZIP;Q=0.5 , Br ; q=0.4", gzip},
           {"gzip;q=1.0, br;q=0.999", gzip},
           {"*", br},
           {"br;q=0, *", zstd},
           {"gzip;q=0.5, *;q=0.1", gzip},
           {"identity, gzip;q=0.5", identity},
           {"identity;q=0.5, gzip;q=0.5", gzip},
           {"gzip;q=0.001", gzip},
           {"deflate", identity},
           {"gzip;q=0", identity},
           {"identity;q=0", std::nullopt},
           {"*;q=0", std::nullopt},
           {"*;q=0, identity;q=0.1", identity},
           {"*;q=0, gzip", gzip},
           {"identity;q=0, gzip;q=0.1", gzip},
           {"x-gzip", gzip},
           {", ,gzip,,", gzip},
           {"gzip;, br; ;q=0.5;", gzip},
           {"gzip;q=0, gzip", identity},
       }) {
    EXPECT_EQ(negotiate_coding(header), expected) << header;
  }
}

TEST(ContentCoding, MalformedHeadersAreIgnored) {
  for (const std::string_view each : {"gzip;q=2", "gzip;q=", "gzip;q", "gzip;q=0.1234", "gzip;q=.5",
                                      "gzip;q=-1", "gzip br", "gzip;x=1", ";q=1", "gzip;q=1;q=1"}) {
    EXPECT_EQ(negotiate_coding(each), content_coding::identity) << each;
  }
}

TEST(ContentCoding, OnlyOfferedOnesAreChosen) {
  constexpr std::array offered{content_coding::gzip};
  EXPECT_EQ(negotiate_coding("br, gzip;q=0.1", offered), content_coding::gzip);
  EXPECT_EQ(negotiate_coding("br", offered), content_coding::identity);
}

TEST(ContentCoding, NamesAreReadAsTheyAreWritten) {
  using enum content_coding;
  for (const content_coding each : {identity, gzip, zstd, br}) {
    EXPECT_EQ(content_coding_of(to_text(each)), each);
  }
  EXPECT_EQ(content_coding_of("deflate"), std::nullopt);
}

TEST(ContentCoding, QualitiesAreThousandths) {
  using gyre::http::detail::parse_quality;
  EXPECT_EQ(parse_quality("0.12"), 120U);
  EXPECT_EQ(parse_quality("1.000"), 1000U);
  EXPECT_EQ(parse_quality("0."), 0U);
  EXPECT_EQ(parse_quality("1.001"), std::nullopt);
  EXPECT_EQ(parse_quality("00"), std::nullopt);
}

}  // namespace
}  // namespace content_coding_test

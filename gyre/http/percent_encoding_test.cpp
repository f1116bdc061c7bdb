// SPDX-License-Identifier: Apache-2.0
// Tests of percent-encoding and its decoding.
#include <gyre/http/percent_encoding.hpp>

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace percent_encoding_test {
namespace {

using gyre::http::decodes_to;
using gyre::http::encode_component;
using gyre::http::encode_path;
using gyre::http::is_percent_encoded;
using gyre::http::percent_decode;
using gyre::http::plus_sign;

std::string every_byte() {
  std::string bytes;
  for (int each = 0; each < 256; ++each) bytes += static_cast<char>(each);
  return bytes;
}

TEST(PercentEncoding, EncodedTextsDecodeToThemselves) {
  EXPECT_EQ(percent_decode(encode_component(every_byte())), every_byte());
  EXPECT_EQ(percent_decode(encode_path(every_byte())), every_byte());
  EXPECT_TRUE(decodes_to(encode_component(every_byte()), every_byte()));
}

TEST(PercentEncoding, OnlyUnreservedCharactersOfComponentsStay) {
  EXPECT_EQ(encode_component("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(encode_component("a/b c?&=+%\xff"), "a%2Fb%20c%3F%26%3D%2B%25%FF");
  EXPECT_EQ(encode_path("/a b/c;d=1@x:y?"), "/a%20b/c;d=1@x:y%3F");
}

TEST(PercentEncoding, MalformedEscapesAreRefused) {
  for (const std::string_view each :
       {"%", "%4", "a%4", "%4g", "%g4", "%%41", "%-1", "% 1", "%+1"}) {
    EXPECT_EQ(percent_decode(each), std::nullopt) << each;
    EXPECT_FALSE(is_percent_encoded(each)) << each;
  }
  EXPECT_TRUE(is_percent_encoded("%41%2F%ff"));
  EXPECT_EQ(percent_decode("%41%2F%fF"), "A/\xff");
}

TEST(PercentEncoding, PlusIsABlankOnlyInForms) {
  EXPECT_EQ(percent_decode("a+b"), "a+b");
  EXPECT_EQ(percent_decode("a+b%2B", plus_sign::is_blank), "a b+");
}

TEST(PercentEncoding, DecodesInPlaceWithoutAllocating) {
  std::string text = "a%20b%2Fc";
  EXPECT_EQ(percent_decode(text, std::span<char>(text)), "a b/c");
  std::array<char, 3> small{};
  EXPECT_THROW(static_cast<void>(percent_decode("abcd", std::span<char>(small))),
               std::length_error);
  EXPECT_EQ(percent_decode("%zz", std::span<char>(small)), std::nullopt);
}

TEST(PercentEncoding, ComparesWithoutDecoding) {
  EXPECT_TRUE(decodes_to("%61bc", "abc"));
  EXPECT_FALSE(decodes_to("%61bcd", "abc"));
  EXPECT_FALSE(decodes_to("ab", "abc"));
  EXPECT_FALSE(decodes_to("ab%6", "abc"));
  EXPECT_FALSE(decodes_to("\xff", "abc"));
}

}  // namespace
}  // namespace percent_encoding_test

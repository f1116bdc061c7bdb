// SPDX-License-Identifier: Apache-2.0
// Tests of media types.
#include <gyre/http/media_type.hpp>

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>

namespace media_type_test {
namespace {

using gyre::http::is_compressible;
using gyre::http::media_type;
using gyre::http::media_type_of;

TEST(MediaType, HasParameters) {
  const std::string text = " Multipart/Form-Data ; boundary=\"a \\\"b;\" ;charset=utf-8 ";
  const auto type = media_type::parse(text);
  ASSERT_TRUE(type);
  EXPECT_EQ(type->type(), "Multipart");
  EXPECT_EQ(type->subtype(), "Form-Data");
  EXPECT_TRUE(type->is("multipart/form-data"));
  EXPECT_FALSE(type->is("multipart/mixed"));
  EXPECT_EQ(type->parameter("Boundary"), "a \"b;");
  EXPECT_EQ(type->parameter("charset"), "utf-8");
  EXPECT_EQ(type->parameter("x"), std::nullopt);
}

// RFC 9110, 5.6.6.
TEST(MediaType, ParametersMayBeEmpty) {
  for (const std::string_view each : {"application/json;", "application/json ; ;\t;"}) {
    const auto type = media_type::parse(each);
    ASSERT_TRUE(type) << each;
    EXPECT_TRUE(type->is("application/json"));
    EXPECT_EQ(type->parameter("charset"), std::nullopt);
  }
  const auto type = media_type::parse("text/html;; charset=utf-8 ; ;a=\";\"; ;");
  ASSERT_TRUE(type);
  EXPECT_EQ(type->parameter("charset"), "utf-8");
  EXPECT_EQ(type->parameter("a"), ";");
}

TEST(MediaType, HasASuffix) {
  EXPECT_TRUE(media_type::parse("application/problem+JSON; a=b")->has_suffix("json"));
  EXPECT_TRUE(media_type::parse("a/b+c+json")->has_suffix("json"));
  for (const char* each : {"application/json", "a/+json", "a/b+jsonp", "a/json+xml", "a/b+"}) {
    EXPECT_FALSE(media_type::parse(each)->has_suffix("json")) << each;
  }
}

TEST(MediaType, MalformedOnesAreRefused) {
  for (const std::string_view each : {"",
                                      "text",
                                      "text/",
                                      "/html",
                                      "text/html; a",
                                      "text/html; =b",
                                      "text/html; a=",
                                      "text/html; a =b",
                                      "text/html; a= b",
                                      "text/html; a=\"b",
                                      "text/html; a=\"b\"c",
                                      "text/html; a=b c",
                                      "text/html x",
                                      "text/html; a=b;; a",
                                      "text/html;; x y",
                                      "text/html,",
                                      "text /html",
                                      "text/html; a=1; A=2",
                                      "text/html; a=\"\\",
                                      "text/html; a=\"\x01\"",
                                      "te\xc3\xbct/html",
                                      "text/html, text/plain"}) {
    EXPECT_FALSE(media_type::parse(each)) << each;
  }
}

TEST(MediaType, FilesHaveTheTypeOfTheirExtension) {
  EXPECT_EQ(media_type_of("index.html"), "text/html; charset=utf-8");
  EXPECT_EQ(media_type_of("/a.b/PICTURE.JPG"), "image/jpeg");
  EXPECT_EQ(media_type_of("a.tar.gz"), "application/gzip");
  for (const std::string_view each : {"", "html", "a.", ".html", "/a.html/b", "a.htmlx"}) {
    EXPECT_EQ(media_type_of(each), "application/octet-stream") << each;
  }
}

TEST(MediaType, TextsAreCompressible) {
  EXPECT_TRUE(is_compressible("text/html; charset=utf-8"));
  EXPECT_TRUE(is_compressible("application/problem+JSON"));
  EXPECT_TRUE(is_compressible("application/json"));
  EXPECT_FALSE(is_compressible("image/png"));
  EXPECT_FALSE(is_compressible("application/gzip"));
  EXPECT_FALSE(is_compressible(""));
}

}  // namespace
}  // namespace media_type_test

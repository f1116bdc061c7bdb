// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/json_text.hpp>

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace json_text_test {
namespace {

using namespace std::string_view_literals;

std::string json_of(std::string_view text) {
  std::string output = "x";
  gyre::detail::append_json_string(output, text);
  return output;
}

TEST(JsonText, AppendsTheTextInQuotes) {
  EXPECT_EQ(json_of(""), "x\"\"");
  EXPECT_EQ(json_of("GET /users/{id}"), "x\"GET /users/{id}\"");
}

TEST(JsonText, EscapesQuotesBackslashesAndControlCharacters) {
  EXPECT_EQ(json_of("a\"b\\c"), R"(x"a\"b\\c")");
  EXPECT_EQ(json_of("\0\n\x1f\x7f"sv), "x\"\\u0000\\u000a\\u001f\x7f\"");
}

TEST(JsonText, KeepsUtf8) {
  EXPECT_EQ(json_of("\u00e4 \u20ac \U0001F600"), "x\"\u00e4 \u20ac \U0001F600\"");
}

TEST(JsonText, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(json_of("a\xff"), "x\"a\uFFFD\"");
  EXPECT_EQ(json_of("\xc3"), "x\"\uFFFD\"");                      // the text ends too early
  EXPECT_EQ(json_of("\xc0\xaf"), "x\"\uFFFD\uFFFD\"");            // '/' in two bytes
  EXPECT_EQ(json_of("\xed\xa0\x80"), "x\"\uFFFD\uFFFD\uFFFD\"");  // half of a surrogate pair
}

}  // namespace
}  // namespace json_text_test

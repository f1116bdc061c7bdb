// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/work/detail/printable_text.hpp>

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace printable_text_test {
namespace {

using gyre::work::detail::printable_text;

TEST(PrintableText, ValidTextStays) {
  const std::string text = "a\n\t\x7f \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80";
  EXPECT_EQ(printable_text(text, 100), text);
  EXPECT_EQ(printable_text("", 100), "");
}

TEST(PrintableText, EachInvalidByteBecomesAQuestionMark) {
  EXPECT_EQ(printable_text(std::string_view("a\0b", 3), 100), "a?b");
  EXPECT_EQ(printable_text("\x80\xbf", 100), "??");
  EXPECT_EQ(printable_text("\xc0\x80", 100), "??");                 // an overlong zero
  EXPECT_EQ(printable_text("\xe0\x80\x80", 100), "???");            // overlong
  EXPECT_EQ(printable_text("\xed\xa0\x80", 100), "???");            // a surrogate
  EXPECT_EQ(printable_text("\xf4\x90\x80\x80", 100), "????");       // beyond U+10FFFF
  EXPECT_EQ(printable_text("\xf0\x80\x80\x80\xff", 100), "?????");  // overlong
  EXPECT_EQ(printable_text("\xc3", 100), "?");                      // cut
  EXPECT_EQ(printable_text("\xe2\x82", 100), "??");
  EXPECT_EQ(printable_text("\xc3(", 100), "?(");
}

TEST(PrintableText, CutsBetweenCharacters) {
  EXPECT_EQ(printable_text("abc", 2), "ab");
  EXPECT_EQ(printable_text("a\xc3\xa4", 2), "a");
  EXPECT_EQ(printable_text("a\xc3\xa4", 3), "a\xc3\xa4");
  EXPECT_EQ(printable_text(std::string(10'000, '\xff'), 100), std::string(100, '?'));
}

}  // namespace
}  // namespace printable_text_test

// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/form.hpp>

#include <gyre/http/format_error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace form_test {
namespace {

using gyre::http::form;
using gyre::http::form_field;
using gyre::http::format_errc;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(Form, FieldsAreDecodedInTheirOrder) {
  const auto parsed = form::parse("b=1&a=J%C3%BCrgen+K&b=2&c&=d&&");
  ASSERT_TRUE(parsed);
  EXPECT_THAT(parsed->fields(),
              ElementsAre(form_field{"b", "1"}, form_field{"a", "Jürgen K"}, form_field{"b", "2"},
                          form_field{"c", ""}, form_field{"", "d"}));
  EXPECT_EQ(parsed->get("a"), "Jürgen K");
  EXPECT_EQ(parsed->get("b"), "1");
  EXPECT_EQ(parsed->get("B"), std::nullopt);
  EXPECT_THAT(parsed->get_all("b"), ElementsAre("1", "2"));
  EXPECT_THAT(parsed->get_all("x"), IsEmpty());
  EXPECT_TRUE(parsed->contains("c"));
  EXPECT_FALSE(parsed->contains("d"));
}

TEST(Form, AnEmptyBodyHasNoFields) {
  const auto parsed = form::parse("");
  ASSERT_TRUE(parsed);
  EXPECT_TRUE(parsed->empty());
  EXPECT_EQ(parsed->to_string(), "");
}

TEST(Form, MalformedAndTooLargeBodiesAreRefused) {
  EXPECT_EQ(form::parse("a=%").error(), format_errc::bad_percent_encoding);
  EXPECT_EQ(form::parse("a=%4g").error(), format_errc::bad_percent_encoding);
  EXPECT_EQ(form::parse("a&b&c", {.max_pairs = 2}).error(), format_errc::too_many_pairs);
  EXPECT_TRUE(form::parse("a&b&", {.max_pairs = 2}));
  EXPECT_EQ(form::parse("abcd", {.max_size = 3}).error(), format_errc::too_long);
}

TEST(Form, EveryByteIsReadAsItWasWritten) {
  std::string all;
  for (int each = 0; each < 256; ++each) all += static_cast<char>(each);
  form written;
  written.add(all, "").add("", all).add("a=b&c", "d+e f%20").add("", "");
  const auto read = form::parse(written.to_string());
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, written);
}

}  // namespace
}  // namespace form_test

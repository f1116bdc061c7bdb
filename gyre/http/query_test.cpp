// SPDX-License-Identifier: Apache-2.0
// Tests of queries.
#include <gyre/http/query.hpp>

#include <gyre/http/format_error.hpp>

#include <gtest/gtest.h>

#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace query_test {
namespace {

using gyre::http::format_errc;
using gyre::http::query;

static_assert(std::forward_iterator<query::iterator>);

using pairs = std::vector<std::pair<std::string, std::string>>;

pairs pairs_of(std::string_view text) {
  pairs all;
  const query parsed = query::parse(text).value();
  for (const auto& each : parsed) all.emplace_back(each.name, each.value);
  return all;
}

TEST(Query, IteratesThePairsInTheirOrder) {
  EXPECT_EQ(pairs_of("a=1&b=2&a=3"), (pairs{{"a", "1"}, {"b", "2"}, {"a", "3"}}));
  EXPECT_EQ(pairs_of("a&b=&=c&d=e=f"), (pairs{{"a", ""}, {"b", ""}, {"", "c"}, {"d", "e=f"}}));
  EXPECT_EQ(pairs_of("&&a=1&&b&"), (pairs{{"a", "1"}, {"b", ""}}));
  EXPECT_EQ(pairs_of(""), pairs());
  EXPECT_TRUE(query::parse("&&").value().empty());
  EXPECT_FALSE(query::parse("a").value().empty());
}

TEST(Query, FindsDecodedNamesAndDecodesValues) {
  const query parsed = query::parse("a+b=c+d%2B&%61=x&a=y&flag").value();
  EXPECT_EQ(parsed.get("a b"), "c d+");
  EXPECT_EQ(parsed.get("a"), "x");
  EXPECT_EQ(parsed.get_all("a"), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(parsed.find("a b"), "c+d%2B");
  EXPECT_EQ(parsed.get("flag"), "");
  EXPECT_EQ(parsed.get("none"), std::nullopt);
  EXPECT_FALSE(parsed.contains("fla"));
}

TEST(Query, HasLimits) {
  EXPECT_EQ(query::parse("a=%4").error(), format_errc::bad_percent_encoding);
  EXPECT_TRUE(query::parse("a&b&&c", {.max_pairs = 3}));
  EXPECT_EQ(query::parse("a&b&c&d", {.max_pairs = 3}).error(), format_errc::too_many_pairs);
  EXPECT_EQ(query::parse("abcd", {.max_size = 3}).error(), format_errc::too_long);
  EXPECT_EQ(query::parse("abcd", {.max_size = 3}).error(), std::errc::message_size);
}

TEST(Query, IsWrittenSoThatItIsReadAgain) {
  std::string text;
  gyre::http::append_pair(text, "a b", "c&d=e");
  gyre::http::append_pair(text, "", "+");
  EXPECT_EQ(text, "a%20b=c%26d%3De&=%2B");
  const query parsed = query::parse(text).value();
  EXPECT_EQ(parsed.get("a b"), "c&d=e");
  EXPECT_EQ(parsed.get(""), "+");
}

}  // namespace
}  // namespace query_test

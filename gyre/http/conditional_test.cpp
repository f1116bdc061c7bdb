// SPDX-License-Identifier: Apache-2.0
// Tests of conditional requests.
#include <gyre/http/conditional.hpp>

#include <gyre/http/date.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>

namespace conditional_test {
namespace {

using gyre::http::conditions;
using gyre::http::evaluate;
using gyre::http::format_date;
using gyre::http::if_range_holds;
using gyre::http::method;
using gyre::http::validators;
using enum gyre::http::condition_outcome;

const std::chrono::sys_seconds changed = std::chrono::sys_days(std::chrono::year(2026) / 1 / 2);
const std::string then = format_date(changed);
const std::string before = format_date(changed - std::chrono::seconds(1));
const validators strong{.entity_tag = "\"a\"", .last_modified = changed};
const validators weak{.entity_tag = "W/\"a\"", .last_modified = changed};
const validators nothing{.exists = false};

TEST(Conditional, WithoutConditionsARequestProceeds) {
  EXPECT_EQ(evaluate(method::get, {}, strong), proceed);
  EXPECT_EQ(evaluate(method::put, {}, nothing), proceed);
}

TEST(Conditional, IfMatchComparesStrongly) {
  EXPECT_EQ(evaluate(method::put, {.if_match = "\"b\", \"a\""}, strong), proceed);
  EXPECT_EQ(evaluate(method::put, {.if_match = "\"b\""}, strong), precondition_failed);
  EXPECT_EQ(evaluate(method::put, {.if_match = "W/\"a\""}, weak), precondition_failed);
  EXPECT_EQ(evaluate(method::put, {.if_match = "*"}, strong), proceed);
  EXPECT_EQ(evaluate(method::put, {.if_match = "*"}, nothing), precondition_failed);
  EXPECT_EQ(evaluate(method::get, {.if_match = "a"}, strong), precondition_failed);
  EXPECT_EQ(evaluate(method::get, {.if_match = ""}, strong), precondition_failed);
}

TEST(Conditional, IfNoneMatchComparesWeakly) {
  EXPECT_EQ(evaluate(method::get, {.if_none_match = "\"a\""}, weak), not_modified);
  EXPECT_EQ(evaluate(method::head, {.if_none_match = "W/\"a\" ,\"c,\""}, strong), not_modified);
  EXPECT_EQ(evaluate(method::get, {.if_none_match = "\"b\""}, strong), proceed);
  EXPECT_EQ(evaluate(method::put, {.if_none_match = "\"a\""}, strong), precondition_failed);
  EXPECT_EQ(evaluate(method::put, {.if_none_match = "*"}, strong), precondition_failed);
  EXPECT_EQ(evaluate(method::put, {.if_none_match = "*"}, nothing), proceed);
  EXPECT_EQ(evaluate(method::get, {.if_none_match = "*"}, strong), not_modified);
}

// RFC 9110, 5.6.1.2.
TEST(Conditional, ElementsOfListsMayBeEmpty) {
  for (const std::string_view each : {", \"a\"", "\"a\",", "\"b\",, ,\"a\"", ",,\"a\" , ,"}) {
    EXPECT_EQ(evaluate(method::put, {.if_match = each}, strong), proceed) << each;
    EXPECT_EQ(evaluate(method::get, {.if_none_match = each}, strong), not_modified) << each;
  }
}

TEST(Conditional, MalformedTagsMatchNothing) {
  for (const std::string_view each : {"a", "\"a", "\"a\" \"b\"", "w/\"a\"", "\"a b\"", "", ","}) {
    EXPECT_EQ(evaluate(method::get, {.if_none_match = each}, strong), proceed) << each;
    EXPECT_EQ(evaluate(method::put, {.if_none_match = each}, strong), precondition_failed) << each;
  }
}

TEST(Conditional, DatesAreComparedWithTheLastChange) {
  EXPECT_EQ(evaluate(method::get, {.if_modified_since = then}, strong), not_modified);
  EXPECT_EQ(evaluate(method::get, {.if_modified_since = before}, strong), proceed);
  EXPECT_EQ(evaluate(method::post, {.if_modified_since = then}, strong), proceed);
  EXPECT_EQ(evaluate(method::get, {.if_modified_since = "yesterday"}, strong), proceed);
  EXPECT_EQ(evaluate(method::put, {.if_unmodified_since = then}, strong), proceed);
  EXPECT_EQ(evaluate(method::put, {.if_unmodified_since = before}, strong), precondition_failed);
  EXPECT_EQ(evaluate(method::put, {.if_unmodified_since = "x"}, strong), proceed);
  EXPECT_EQ(evaluate(method::get, {.if_modified_since = then}, {.entity_tag = "\"a\""}), proceed);
}

TEST(Conditional, TagsCountBeforeDates) {
  EXPECT_EQ(evaluate(method::get, {.if_none_match = "\"b\"", .if_modified_since = then}, strong),
            proceed);
  EXPECT_EQ(evaluate(method::put, {.if_match = "\"a\"", .if_unmodified_since = before}, strong),
            proceed);
  EXPECT_EQ(evaluate(method::get, {.if_match = "\"a\"", .if_none_match = "\"a\""}, strong),
            not_modified);
}

TEST(Conditional, IfRangeNeedsStrongValidators) {
  const auto now = changed + std::chrono::hours(1);
  EXPECT_TRUE(if_range_holds("\"a\"", strong, now));
  EXPECT_FALSE(if_range_holds("\"b\"", strong, now));
  EXPECT_FALSE(if_range_holds("W/\"a\"", weak, now));
  EXPECT_FALSE(if_range_holds(then, strong, now)) << "it may have changed twice in that second";
  validators dated = strong;
  dated.last_modified_is_strong = true;
  EXPECT_TRUE(if_range_holds(then, dated, now));
  EXPECT_FALSE(if_range_holds(then, dated, changed));
  EXPECT_FALSE(if_range_holds(before, dated, now));
  EXPECT_FALSE(if_range_holds("", strong, now));
  EXPECT_FALSE(if_range_holds("\"\"", {}, now));
}

}  // namespace
}  // namespace conditional_test

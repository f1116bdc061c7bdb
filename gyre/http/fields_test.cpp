// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/fields.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <string>
#include <utility>

namespace http_fields_test {
namespace {

using gyre::http::field;
using gyre::http::field_list;
using gyre::http::fields;

std::string names_of(const fields& of) {
  std::string names;
  for (const auto& [name, value] : of) names += std::string(name) + "=" + std::string(value) + ";";
  return names;
}

TEST(Fields, AreKeptInTheirOrder) {
  fields some;
  EXPECT_TRUE(some.empty());
  some.add("A", "1").add("B", "").add("a", " 2\t");
  EXPECT_EQ(names_of(some), "A=1;B=;a=2;");
  EXPECT_EQ(some.text(), "A: 1\r\nB: \r\na: 2\r\n");
  EXPECT_EQ(some.get("b"), "");
  EXPECT_EQ(some.get("A"), "1");
  EXPECT_FALSE(some.contains("C"));
}

TEST(Fields, SetReplacesAllOfTheName) {
  fields some;
  some.add("A", "1").add("B", "2").add("a", "3").set("A", "4");
  EXPECT_EQ(names_of(some), "B=2;A=4;");
  EXPECT_EQ(some.erase("b"), 1u);
  EXPECT_EQ(some.erase("b"), 0u);
  EXPECT_EQ(names_of(some), "A=4;");
  EXPECT_EQ(some.erase("A"), 1u);
  EXPECT_TRUE(some.empty());
}

TEST(Fields, ErasesRepeatedNamesAmongOthers) {
  fields some;
  some.add("X", "1").add("A", "2").add("x", "3").add("x", "4").add("B", "5").add("X", "6");
  EXPECT_EQ(some.erase("X"), 4u);
  EXPECT_EQ(names_of(some), "A=2;B=5;");
}

TEST(Fields, RefuseWhatWouldSplitAResponse) {
  fields some;
  some.add("A", "1");
  EXPECT_THROW(some.add("A", "x\r\nB: y"), std::invalid_argument);
  EXPECT_THROW(some.add("A", "x\ny"), std::invalid_argument);
  EXPECT_THROW(some.add("A", std::string_view("x\0y", 3)), std::invalid_argument);
  EXPECT_THROW(some.add("A B", "x"), std::invalid_argument);
  EXPECT_THROW(some.add("", "x"), std::invalid_argument);
  EXPECT_THROW(some.add("A:", "x"), std::invalid_argument);
  EXPECT_THROW(some.set("A", "\x7f"), std::invalid_argument);
  EXPECT_EQ(names_of(some), "A=1;");
}

TEST(Fields, AreCopied) {
  fields some;
  some.add("A", "1");
  fields copy = some;
  copy.add("B", "2");
  EXPECT_EQ(names_of(some), "A=1;");
  some = copy;
  EXPECT_EQ(names_of(some), "A=1;B=2;");
  const fields moved = std::move(copy);
  EXPECT_EQ(names_of(moved), "A=1;B=2;");
}

TEST(Fields, TakeTextOfTheirOwn) {
  gyre::http::fields some;
  some.add("A", "first").add("B", "the second value");
  some.set("A", *some.get("B"));
  EXPECT_EQ(some.get("A"), "the second value");
  for (int i = 0; i < 100; ++i) some.add("C", *some.get("B"));
  EXPECT_EQ(some.get("C"), "the second value");
}

TEST(FieldList, FindsNamesWithoutRegardToCase) {
  const std::array<field, 2> some{{{"Host", "a"}, {"X", "y"}}};
  const field_list list(some);
  EXPECT_EQ(list.get("hOST"), "a");
  EXPECT_FALSE(list.contains("Hos"));
  EXPECT_EQ(list.size(), 2u);
  EXPECT_EQ(list[1].value, "y");
}

}  // namespace
}  // namespace http_fields_test

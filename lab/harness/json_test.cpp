// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/json.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace lab {
namespace json_test {
namespace {

TEST(Json, EmptyObjectIsAnObject) { EXPECT_EQ(json_object().text(), "{}"); }

TEST(Json, FieldsKeepTheirOrderAndTypes) {
  json_object object;
  object.add("text", "a").add("yes", true).add("count", 3).add("ratio", 0.5);
  EXPECT_EQ(object.text(), R"({"text":"a","yes":true,"count":3,"ratio":0.5})");
}

TEST(Json, ObjectsNest) {
  json_object inner;
  inner.add("producers", 4u);
  EXPECT_EQ(json_object().add("parameters", inner).text(), R"({"parameters":{"producers":4}})");
}

TEST(Json, WholeRangeOfIntegersIsExact) {
  json_object object;
  object.add("most", std::numeric_limits<std::uint64_t>::max());
  object.add("least", std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(object.text(), R"({"most":18446744073709551615,"least":-9223372036854775808})");
}

TEST(Json, DoublesReadBackAsTheSameNumber) {
  const double third = 1.0 / 3.0;
  const std::string text = json_object().add("x", third).text();
  EXPECT_EQ(std::stod(text.substr(text.find(':') + 1)), third);
}

TEST(Json, InfinitiesAndNanBecomeNull) {
  json_object object;
  object.add("nan", std::numeric_limits<double>::quiet_NaN());
  object.add("infinity", -std::numeric_limits<double>::infinity());
  EXPECT_EQ(object.text(), R"({"nan":null,"infinity":null})");
}

TEST(Json, EscapesWhatWouldEndOrBreakTheString) {
  EXPECT_EQ(json_quote("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(json_quote("line\nnext\ttab\rreturn"), R"("line\nnext\ttab\rreturn")");
  EXPECT_EQ(json_quote(std::string("\0\x01\x1f", 3)), R"("\u0000\u0001\u001f")");
}

TEST(Json, KeysAreEscapedToo) { EXPECT_EQ(json_object().add("a\"", 1).text(), R"({"a\"":1})"); }

TEST(Json, Utf8PassesUnchanged) { EXPECT_EQ(json_quote("µs"), "\"µs\""); }

}  // namespace
}  // namespace json_test
}  // namespace lab

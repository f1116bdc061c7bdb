// SPDX-License-Identifier: Apache-2.0
// Tests of dates.
#include <gyre/http/date.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace date_test {
namespace {

using gyre::http::format_date;
using gyre::http::parse_date;
using std::chrono::sys_days;
using std::chrono::sys_seconds;
using std::chrono::year;

sys_seconds at(long long seconds) { return sys_seconds(std::chrono::seconds(seconds)); }

const sys_seconds now = sys_days(year(2026) / 11 / 25);

TEST(Date, ThreeFormsAreRead) {
  EXPECT_EQ(parse_date("Sun, 06 Nov 1994 08:49:37 GMT"), at(784111777));
  EXPECT_EQ(parse_date("Sunday, 06-Nov-94 08:49:37 GMT"), at(784111777));
  EXPECT_EQ(parse_date("Sun Nov  6 08:49:37 1994"), at(784111777));
  EXPECT_EQ(parse_date("Wed Nov 16 08:49:37 1994"), at(784111777 + 864000));
}

TEST(Date, WrittenOnesAreReadAgain) {
  EXPECT_EQ(format_date(at(784111777)), "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(format_date(at(0)), "Thu, 01 Jan 1970 00:00:00 GMT");
  for (const long long each : {-62135596800LL, -1LL, 951782400LL, 2147483647LL, 2147483648LL,
                               4294967296LL, 253402300799LL}) {
    EXPECT_EQ(parse_date(format_date(at(each))), at(each));
  }
  EXPECT_EQ(format_date(at(253402300800LL)), "Fri, 31 Dec 9999 23:59:59 GMT");
  EXPECT_EQ(format_date(sys_seconds::min()), "Sat, 01 Jan 0000 00:00:00 GMT");
}

TEST(Date, YearsOfTwoDigitsAreAtMost50YearsAhead) {
  EXPECT_EQ(parse_date("Wednesday, 01-Jan-76 00:00:00 GMT", now), sys_days(year(2076) / 1 / 1));
  EXPECT_EQ(parse_date("Saturday, 01-Jan-77 00:00:00 GMT", now), sys_days(year(1977) / 1 / 1));
}

TEST(Date, OtherTextsAreRefused) {
  for (const std::string_view each : {"",
                                      "Sun",
                                      "Sun, 06 Nov 1994 08:49:37",
                                      "Sun, 06 Nov 1994 08:49:37 UTC",
                                      "Sun, 06 Nov 1994 08:49:37 GMT ",
                                      " Sun, 06 Nov 1994 08:49:37 GMT",
                                      "sun, 06 Nov 1994 08:49:37 GMT",
                                      "Sun, 6 Nov 1994 08:49:37 GMT",
                                      "Mon, 06 Nov 1994 08:49:37 GMT",
                                      "Sun, 06 nov 1994 08:49:37 GMT",
                                      "Sun, 06 anF 1994 08:49:37 GMT",
                                      "Thu, 31 Apr 1994 08:49:37 GMT",
                                      "Tue, 29 Feb 1994 00:00:00 GMT",
                                      "Sun, 00 Nov 1994 08:49:37 GMT",
                                      "Sun, 06 Nov 1994 24:00:00 GMT",
                                      "Sun, 06 Nov 1994 08:60:37 GMT",
                                      "Sun, 06 Nov 1994 08:49:61 GMT",
                                      "Sun, 06 Nov 1994 -8:49:37 GMT",
                                      "Sun, 06 Nov +994 08:49:37 GMT",
                                      "Sun Nov 6 08:49:37 1994",
                                      "Sun Nov 06 08:49:37 94",
                                      "Sunday, 06-Nov-1994 08:49:37 GMT",
                                      "Sunday, 06 Nov 1994 08:49:37 GMT",
                                      "784111777"}) {
    EXPECT_EQ(parse_date(each), std::nullopt) << each;
  }
}

TEST(Date, LeapSecondsAreRead) {
  EXPECT_EQ(parse_date("Sat, 31 Dec 2016 23:59:60 GMT"), sys_days(year(2017) / 1 / 1));
}

}  // namespace
}  // namespace date_test

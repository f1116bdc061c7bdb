// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/work/cron_expression.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace cron_expression_test {
namespace {

using namespace std::chrono;
using gyre::work::cron_expression;

local_seconds at(year_month_day day, hours hour = {}, minutes minute = {}, seconds second = {}) {
  return local_days(day) + hour + minute + second;
}

std::string refusal_of(std::string_view text) {
  try {
    static_cast<void>(cron_expression(text));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "none";
}

TEST(CronExpression, NextMinuteOfEveryMinute) {
  const cron_expression every("* * * * *");
  EXPECT_EQ(every.next(at(2026y / 1 / 1, 10h, 5min)), at(2026y / 1 / 1, 10h, 6min));
  EXPECT_EQ(every.next(at(2026y / 1 / 1, 10h, 5min, 59s)), at(2026y / 1 / 1, 10h, 6min));
  EXPECT_EQ(every.next(at(2026y / 12 / 31, 23h, 59min)), at(2027y / 1 / 1));
}

TEST(CronExpression, TimeItselfIsNotTheNext) {
  const cron_expression noon("0 12 * * *");
  EXPECT_EQ(noon.next(at(2026y / 1 / 1, 11h, 59min, 59s)), at(2026y / 1 / 1, 12h));
  EXPECT_EQ(noon.next(at(2026y / 1 / 1, 12h)), at(2026y / 1 / 2, 12h));
}

TEST(CronExpression, ListsRangesAndSteps) {
  const cron_expression mixed("5,50-52,*/30 8-10/2 * * *");
  std::vector<local_seconds> times;
  local_seconds instant = at(2026y / 3 / 1);
  for (int n = 0; n != 7; ++n) times.push_back(instant = mixed.next(instant).value());
  const auto day = 2026y / 3 / 1;
  EXPECT_EQ(times, (std::vector<local_seconds>{at(day, 8h), at(day, 8h, 5min), at(day, 8h, 30min),
                                               at(day, 8h, 50min), at(day, 8h, 51min),
                                               at(day, 8h, 52min), at(day, 10h)}));
}

TEST(CronExpression, NamesInAnyCase) {
  EXPECT_EQ(cron_expression("0 0 * JAN-mar Mon"), cron_expression("0 0 * 1-3 1"));
  EXPECT_EQ(cron_expression("0 0 * * sun"), cron_expression("0 0 * * 7"));
  EXPECT_EQ(cron_expression("0 0 * * 5-7"), cron_expression("0 0 * * 0,5,6"));
}

TEST(CronExpression, EitherDayFieldIsEnoughIfBothAreRestricted) {
  const cron_expression both("0 0 13 * fri");
  EXPECT_EQ(both.next(at(2026y / 11 / 7)), at(2026y / 11 / 13));  // a Friday and a 13th
  EXPECT_EQ(both.next(at(2026y / 11 / 13)), at(2026y / 11 / 20));
  EXPECT_EQ(both.next(at(2026y / 12 / 11)), at(2026y / 12 / 13));  // a Sunday
  const cron_expression unlucky("0 0 */13 * fri");                 // begins with *: both must match
  EXPECT_EQ(unlucky.next(at(2026y / 11 / 28)), at(2027y / 1 / 1));
}

TEST(CronExpression, LeapDays) {
  const cron_expression leap("0 0 29 2 *");
  EXPECT_EQ(leap.next(at(2026y / 1 / 1)), at(2028y / 2 / 29));
  EXPECT_EQ(leap.next(at(2096y / 3 / 1)), at(2104y / 2 / 29));
  const cron_expression last_days("0 0 31 * *");
  EXPECT_EQ(last_days.next(at(2026y / 1 / 31)), at(2026y / 3 / 31));
}

TEST(CronExpression, NoneForADayThatNeverComes) {
  EXPECT_EQ(cron_expression("0 0 30 2 *").next(at(2026y / 1 / 1)), std::nullopt);
}

TEST(CronExpression, TimesBefore1970) {
  EXPECT_EQ(cron_expression("@daily").next(at(1969y / 12 / 30, 1h)), at(1969y / 12 / 31));
}

TEST(CronExpression, Macros) {
  EXPECT_EQ(cron_expression("@yearly"), cron_expression("0 0 1 1 *"));
  EXPECT_EQ(cron_expression("@Annually"), cron_expression("0 0 1 1 *"));
  EXPECT_EQ(cron_expression("@monthly"), cron_expression("0 0 1 * *"));
  EXPECT_EQ(cron_expression("@weekly"), cron_expression("0 0 * * 0"));
  EXPECT_EQ(cron_expression("@daily"), cron_expression("@midnight"));
  EXPECT_EQ(cron_expression("@hourly"), cron_expression("0 * * * *"));
}

TEST(CronExpression, RefusalsNameTheFieldAndTheReason) {
  EXPECT_EQ(refusal_of("60 * * * *"),
            "cron_expression: \"60 * * * *\": the minute: a value out of 0 to 59");
  EXPECT_EQ(refusal_of("* * 0 * *"),
            "cron_expression: \"* * 0 * *\": the day of the month: a value out of 1 to 31");
  EXPECT_EQ(refusal_of("* * * foo *"),
            "cron_expression: \"* * * foo *\": the month: \"foo\" is not a number");
  for (const char* text : {"",
                           " ",
                           "@",
                           "@reboot",
                           "* * * *",
                           "* * * * * *",
                           "*/0 * * * *",
                           "5/2 * * * *",
                           "9-5 * * * *",
                           "1, * * * *",
                           ",1 * * * *",
                           "-1 * * * *",
                           "1- * * * *",
                           "+1 * * * *",
                           "1-2-3 * * * *",
                           "* 24 * * *",
                           "* * 32 * *",
                           "* * * 13 *",
                           "* * * * 8",
                           "*/ * * * *",
                           "*/1/2 * * * *",
                           "99999999999999999999 * * * *",
                           "** * * * *",
                           "1 2 3 4 5x",
                           "L * * * *"}) {
    EXPECT_NE(refusal_of(text), "none") << text;
  }
  EXPECT_NE(refusal_of(std::string(5000, '1')), "none");
  EXPECT_NE(refusal_of(std::string_view("\0 * * * *", 9)), "none");
}

TEST(CronExpression, StepsBeyondTheRangeTakeTheFirst) {
  EXPECT_EQ(cron_expression("*/4294967295 * * * *"), cron_expression("0 * * * *"));
}

/// The definition of next(), minute by minute.
TEST(CronExpression, NextIsTheFirstMinuteOfTheSet) {
  std::mt19937 random(7);
  for (int round = 0; round != 60; ++round) {
    const auto minute = static_cast<unsigned>(random() % 60);
    const auto hour = static_cast<unsigned>(random() % 24);
    const cron_expression daily(std::to_string(minute) + " " + std::to_string(hour) + " * * *");
    local_seconds instant = at(2027y / 2 / 27) + seconds{random() % 300'000};
    const local_seconds next = daily.next(instant).value();
    instant = floor<minutes>(instant) + 1min;
    while ((instant - floor<days>(instant)) != hours{hour} + minutes{minute}) instant += 1min;
    EXPECT_EQ(next, instant);
  }
}

}  // namespace
}  // namespace cron_expression_test

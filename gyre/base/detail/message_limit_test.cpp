// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/message_limit.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

namespace message_limit_test {
namespace {

using namespace std::chrono_literals;
using gyre::steady_time;
using gyre::detail::message_limit;

// The messages of `count` that are admitted at one time.
int admitted(message_limit& limit, steady_time now, int count) {
  int messages = 0;
  while (count-- > 0) messages += limit.admit(now) ? 1 : 0;
  return messages;
}

TEST(MessageLimit, AdmitsTenAtOnceAndOnePerSecond) {
  message_limit limit;
  steady_time now(1h);
  EXPECT_EQ(admitted(limit, now, 100), 10);
  EXPECT_EQ(admitted(limit, now + 999ms, 100), 0);
  EXPECT_EQ(admitted(limit, now + 1s, 100), 1);
  EXPECT_EQ(admitted(limit, now + 3500ms, 100), 2);
  EXPECT_EQ(admitted(limit, now + 1h, 100), 10);
}

TEST(MessageLimit, CountsTheMessagesThatItLeavesOut) {
  message_limit limit;
  const steady_time now(1h);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(limit.admit(now), 0);
  EXPECT_EQ(limit.admit(now), std::nullopt);
  EXPECT_EQ(limit.admit(now), std::nullopt);
  EXPECT_EQ(limit.admit(now + 1s), 2);
  EXPECT_EQ(limit.admit(now + 2s), 0);
}

TEST(MessageLimit, PrintsHowManyMessagesWereLeftOut) {
  message_limit limit;
  const steady_time now(1h);
  testing::internal::CaptureStderr();
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(limit.may_print(now, "doorman", "guests"));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(limit.may_print(now, "doorman", "guests"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  EXPECT_TRUE(limit.may_print(now + 1s, "doorman", "guests"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "gyre: doorman: 3 more guests, not printed\n");
}

TEST(MessageLimit, BeginsFullAtAnyTime) {
  message_limit early;
  EXPECT_EQ(admitted(early, steady_time(), 100), 10);
}

}  // namespace
}  // namespace message_limit_test

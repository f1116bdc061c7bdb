// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/adaptive_attempt.hpp>

#include <gtest/gtest.h>

namespace adaptive_attempt_test {
namespace {

using gyre::detail::adaptive_attempt;

TEST(AdaptiveAttempt, WithoutCreditIsDueAfterPausesThatDouble) {
  adaptive_attempt attempt(0, 1);
  const auto opportunities_until_due = [&] {
    int passed = 1;
    while (!attempt.claim_attempt()) ++passed;
    return passed;
  };
  for (const int pause : {8, 16, 32, 64, 128, 256, 512, 512}) {
    EXPECT_EQ(opportunities_until_due(), pause);
    attempt.fail();
  }
  attempt.succeed();
  EXPECT_EQ(opportunities_until_due(), 1);
  attempt.fail();
  EXPECT_EQ(opportunities_until_due(), 8);
}

}  // namespace
}  // namespace adaptive_attempt_test

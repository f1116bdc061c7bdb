// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/spin_budget.hpp>

#include <gtest/gtest.h>

namespace spin_budget_test {
namespace {

using gyre::detail::spin_budget;

int least_of(spin_budget& budget) {
  int least = budget.looks();
  for (int i = 0; i < 20; ++i) {
    budget.record_failure();
    least = budget.looks();
  }
  return least;
}

TEST(SpinBudget, ShrinksWhileLooksAreWasted) {
  spin_budget budget;
  const int first = budget.looks();
  budget.record_failure();
  EXPECT_EQ(budget.looks(), first / 2);
  EXPECT_LT(least_of(budget), 10);
}

TEST(SpinBudget, IsTriedWholeNowAndThenForOneTimeOnly) {
  spin_budget budget;
  const int most = budget.looks();
  const int least = least_of(budget);
  int whole = 0;
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_TRUE(budget.looks() == most || budget.looks() == least);
    whole += budget.looks() == most ? 1 : 0;
    budget.record_failure();
  }
  EXPECT_GT(whole, 10);
  EXPECT_LT(whole, 1000);
}

// The number of failures until the next retry of the whole budget.
int failures_until_retry(spin_budget& budget, int whole) {
  int failures = 0;
  do {
    budget.record_failure();
    ++failures;
  } while (budget.looks() != whole && failures < 1000);
  return failures;
}

TEST(SpinBudget, RetriesLessOftenWhileThatIsInVain) {
  spin_budget budget;
  const int most = budget.looks();
  for (const int backoff : {8, 16, 32, 64, 128, 128}) {
    EXPECT_EQ(failures_until_retry(budget, most), backoff);
  }
}

TEST(SpinBudget, ARetryThatPaysLetsTheNextComeSoon) {
  spin_budget budget;
  const int most = budget.looks();
  for (int retry = 0; retry < 5; ++retry) failures_until_retry(budget, most);
  budget.record_success(most / 4);
  EXPECT_EQ(failures_until_retry(budget, most), 8);
}

TEST(SpinBudget, ARetryThatALookOfAnySpinFulfilsIsNoReasonForMore) {
  spin_budget budget;
  const int most = budget.looks();
  for (int retry = 0; retry < 4; ++retry) failures_until_retry(budget, most);
  budget.record_success(1);
  EXPECT_EQ(failures_until_retry(budget, most), 64);
}

TEST(SpinBudget, StaysAsLargeAsPaid) {
  spin_budget budget;
  const int most = budget.looks();
  const int least = least_of(budget);
  budget.record_success(least);
  EXPECT_GT(budget.looks(), least);
  budget.record_success(most);
  EXPECT_EQ(budget.looks(), most);
  budget.record_success(1);
  EXPECT_EQ(budget.looks(), most);
}

}  // namespace
}  // namespace spin_budget_test

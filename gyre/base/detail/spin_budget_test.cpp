// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/spin_budget.hpp>

#include <gtest/gtest.h>

namespace spin_budget_test {
namespace {

using gyre::detail::spin_budget;

int least_of(spin_budget& budget) {
  int least = budget.looks();
  for (int i = 0; i < 20; ++i) {
    budget.wasted();
    least = budget.looks();
  }
  return least;
}

TEST(SpinBudget, ShrinksWhileLooksAreWasted) {
  spin_budget budget;
  const int first = budget.looks();
  budget.wasted();
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
    budget.wasted();
  }
  EXPECT_GT(whole, 10);
  EXPECT_LT(whole, 1000);
}

TEST(SpinBudget, StaysAsLargeAsPaid) {
  spin_budget budget;
  const int most = budget.looks();
  const int least = least_of(budget);
  budget.paid(least);
  EXPECT_GT(budget.looks(), least);
  budget.paid(most);
  EXPECT_EQ(budget.looks(), most);
  budget.paid(1);
  EXPECT_EQ(budget.looks(), most);
}

}  // namespace
}  // namespace spin_budget_test

// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/detail/yield_schedule.hpp>

#include <gtest/gtest.h>

namespace yield_schedule_test {
namespace {

using gyre::detail::yield_schedule;

constexpr int looks = 1000;

// Spins of a loop, each of which finds its task by look number `look`.
class YieldSchedule : public testing::Test {
 protected:
  void spin(int look) {
    schedule_.start_spin();
    schedule_.record_success(look);
  }
  void prove_that_yields_pay() {
    for (int i = 0; i < yield_schedule::proof; ++i) spin(yield_schedule::interval + 1);
  }
  // Starts a spin, and returns the first look that a yield follows.
  int first_yield() {
    schedule_.start_spin();
    for (int look = 1; look <= looks; ++look) {
      if (schedule_.must_yield(look)) return look;
    }
    return 0;
  }
  // The spins among so many that yield after their first look; each finds its task by then.
  int spins_that_yield_first(int spins) {
    int count = 0;
    for (int i = 0; i < spins; ++i) {
      const int look = first_yield();
      schedule_.record_success(look + 1);
      if (look == 1) ++count;
    }
    return count;
  }

  yield_schedule schedule_;
};

TEST_F(YieldSchedule, YieldsAfterEveryIntervalAtFirst) {
  schedule_.start_spin();
  int yields = 0;
  for (int look = 1; look <= looks; ++look) {
    EXPECT_EQ(schedule_.must_yield(look), look % yield_schedule::interval == 0);
    yields += schedule_.must_yield(look) ? 1 : 0;
  }
  EXPECT_EQ(yields, looks / yield_schedule::interval);
  EXPECT_FALSE(schedule_.may_yield(yield_schedule::interval - 1));
  EXPECT_TRUE(schedule_.may_yield(yield_schedule::interval));
}

TEST_F(YieldSchedule, YieldsFirstWhenYieldsHaveBroughtTheLastTasks) {
  for (int i = 0; i < yield_schedule::proof; ++i) {
    EXPECT_EQ(first_yield(), yield_schedule::interval);
    schedule_.record_success(yield_schedule::interval + 1);
  }
  EXPECT_EQ(first_yield(), 1);
  EXPECT_TRUE(schedule_.may_yield(2));
  EXPECT_TRUE(schedule_.must_yield(yield_schedule::interval)) << "the later yields remain";
}

TEST_F(YieldSchedule, ATaskWithoutAYieldBeginsTheProofAgain) {
  for (int i = 1; i < yield_schedule::proof; ++i) spin(yield_schedule::interval + 1);
  spin(yield_schedule::interval);  // found by a look that no yield precedes
  spin(yield_schedule::interval + 1);
  EXPECT_EQ(first_yield(), yield_schedule::interval);
}

TEST_F(YieldSchedule, AFailureBeginsTheProofAgain) {
  prove_that_yields_pay();
  schedule_.start_spin();
  schedule_.record_failure();
  EXPECT_EQ(first_yield(), yield_schedule::interval);
}

TEST_F(YieldSchedule, ATaskThatWaitsAlreadyTellsNothing) {
  prove_that_yields_pay();
  for (int i = 0; i < 10; ++i) spin(1);
  EXPECT_GT(spins_that_yield_first(10), 0);
}

TEST_F(YieldSchedule, ProbesNowAndThenWhetherTasksComeWithoutYields) {
  prove_that_yields_pay();
  constexpr int spins = 160;
  const int firsts = spins_that_yield_first(spins);
  EXPECT_LT(firsts, spins);
  EXPECT_GT(firsts, spins * 3 / 4);
}

TEST_F(YieldSchedule, AProbeThatFindsATaskWithoutAYieldEndsTheYields) {
  prove_that_yields_pay();
  int spins = 0;
  for (; first_yield() == 1 && spins < looks; ++spins) schedule_.record_success(2);
  ASSERT_LT(spins, looks);
  schedule_.record_success(5);
  EXPECT_EQ(spins_that_yield_first(1), 0);
}

}  // namespace
}  // namespace yield_schedule_test

// SPDX-License-Identifier: Apache-2.0
// Tests of theft_record: when a thief must rest, by its clock.
#include <gyre/pool/detail/theft_record.hpp>

#include <gtest/gtest.h>

#include <chrono>

namespace theft_record_test {
namespace {

using gyre::detail::theft_record;
using std::chrono::microseconds;

class thief {
 public:
  void steal(microseconds theft, microseconds work) {
    record.start(now_);
    now_ += theft;
    record.end(now_, true);
    now_ += work;
  }
  void wait(microseconds time) {
    record.finish_tasks(now_);
    now_ += time;
  }
  void fail(microseconds theft) {
    record.start(now_);
    now_ += theft;
    record.end(now_, false);
  }
  // After the loot of the last theft.
  bool must_rest() {
    fail(microseconds(1));
    return record.must_rest();
  }

  theft_record record;

 private:
  gyre::steady_time now_{};
};

TEST(TheftRecord, AThiefNeedNotRestAtFirst) { EXPECT_FALSE(theft_record().must_rest()); }

TEST(TheftRecord, AThiefThatFailsAgainAndAgainMustRest) {
  thief one;
  for (int i = 0; i < 7; ++i) one.fail(microseconds(5));
  EXPECT_FALSE(one.record.must_rest());
  one.fail(microseconds(5));
  EXPECT_TRUE(one.record.must_rest());
}

TEST(TheftRecord, LootThatTakesLittleLongerThanTheTheftIsALoss) {
  thief one;
  for (int i = 0; i < 8; ++i) one.steal(microseconds(5), microseconds(10));
  EXPECT_TRUE(one.must_rest());
}

TEST(TheftRecord, LootThatTakesMuchLongerThanTheTheftPays) {
  thief one;
  for (int i = 0; i < 100; ++i) one.steal(microseconds(5), microseconds(50));
  EXPECT_FALSE(one.must_rest());
}

TEST(TheftRecord, AWaitForWorkAfterTheStolenTasksIsNoGain) {
  thief one;
  for (int i = 0; i < 8; ++i) {
    one.steal(microseconds(5), microseconds(1));
    one.wait(microseconds(1000));
  }
  EXPECT_TRUE(one.must_rest());
}

TEST(TheftRecord, AShortTheftCostsTheVictimAMicrosecondAllTheSame) {
  thief one;
  for (int i = 0; i < 8; ++i) one.steal(microseconds(0), microseconds(4));
  EXPECT_TRUE(one.must_rest());
  thief other;
  for (int i = 0; i < 8; ++i) other.steal(microseconds(0), microseconds(5));
  EXPECT_FALSE(other.must_rest());
}

TEST(TheftRecord, OneTheftIsAllowedAfterEachRest) {
  thief one;
  for (int i = 0; i < 8; ++i) one.fail(microseconds(5));
  EXPECT_GT(one.record.begin_rest(), microseconds(0));
  EXPECT_FALSE(one.record.must_rest());
  one.fail(microseconds(5));
  EXPECT_TRUE(one.record.must_rest());
}

TEST(TheftRecord, RestsGrowToALimit) {
  thief one;
  for (int i = 0; i < 8; ++i) one.fail(microseconds(5));
  const auto first = one.record.begin_rest();
  EXPECT_EQ(one.record.begin_rest(), 2 * first);
  for (int i = 0; i < 20; ++i) static_cast<void>(one.record.begin_rest());
  EXPECT_EQ(one.record.begin_rest(), std::chrono::milliseconds(1));
}

TEST(TheftRecord, ATheftThatPaysEndsTheRests) {
  thief one;
  for (int i = 0; i < 8; ++i) one.fail(microseconds(5));
  const auto first = one.record.begin_rest();
  one.steal(microseconds(5), microseconds(500));
  one.fail(microseconds(5));
  EXPECT_FALSE(one.record.must_rest());
  for (int i = 0; i < 8; ++i) one.fail(microseconds(5));
  EXPECT_EQ(one.record.begin_rest(), first);
}

}  // namespace
}  // namespace theft_record_test

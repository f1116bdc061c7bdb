// SPDX-License-Identifier: Apache-2.0
//
// Tests that the checker runs every schedule, no equivalent ones, and can replay a failing one.
#include <tests/model/model.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <string>

namespace {

namespace model = gyre::model;
using model::check;
using testing::HasSubstr;

TEST(Search, RunsEachInterleavingOnce) {
  const auto found = check({.preemptions = model::unlimited, .keep_equivalent = true}, [] {
    model::atomic<int> a{0};
    model::thread other([&] {
      a.fetch_add(1);
      a.fetch_add(1);
    });
    a.fetch_add(1);
    a.fetch_add(1);
    other.join();
  });
  EXPECT_TRUE(found) << found;
  EXPECT_EQ(found.schedules, 6U);  // four operations, two of each thread: 4! / (2! 2!)
}

TEST(Search, FindsEveryInterleavingOfThreeThreads) {
  std::set<std::string> interleavings;
  const auto found = check({.preemptions = model::unlimited}, [&] {
    model::atomic<std::size_t> next{0};
    char order[] = "......";
    const auto twice = [&](char id) {
      order[next.fetch_add(1)] = id;
      order[next.fetch_add(1)] = id;
    };
    model::thread first([&] { twice('1'); });
    model::thread second([&] { twice('2'); });
    twice('0');
    first.join();
    second.join();
    model::outside([&] { interleavings.insert(order); });
  });
  EXPECT_TRUE(found) << found;
  EXPECT_EQ(interleavings.size(), 90U);  // 6! / (2! 2! 2!)
}

TEST(Search, KeepsToTheBoundOnPreemptions) {
  const auto schedules = [](unsigned bound) {
    return check({.preemptions = bound, .keep_equivalent = true},
                 [] {
                   model::atomic<int> a{0};
                   model::thread other([&] {
                     a.fetch_add(1);
                     a.fetch_add(1);
                   });
                   a.fetch_add(1);
                   a.fetch_add(1);
                   other.join();
                 })
        .schedules;
  };
  // m is the first thread, o the other; a thread that has ended is not preempted.
  EXPECT_EQ(schedules(0), 1U);  // mmoo
  EXPECT_EQ(schedules(1), 3U);  // also moom, oomm
  EXPECT_EQ(schedules(2), 5U);  // also momo, ommo
  EXPECT_EQ(schedules(3), 6U);  // also omom
}

TEST(Search, PrunesSchedulesThatDifferInIndependentOperationsOnly) {
  const auto run = [](bool keep_equivalent) {
    return check({.preemptions = model::unlimited, .keep_equivalent = keep_equivalent}, [] {
      model::atomic<int> a{0};
      model::atomic<int> b{0};
      model::thread other([&] {
        for (int i = 0; i < 4; ++i) a.fetch_add(1);
      });
      for (int i = 0; i < 4; ++i) b.fetch_add(1);
      other.join();
    });
  };
  EXPECT_EQ(run(true).schedules, 70U);  // 8! / (4! 4!)
  EXPECT_LT(run(false).schedules, 10U);
}

TEST(Search, ReplaysAFailingScheduleFromItsTrace) {
  const auto body = [] {
    model::atomic<int> a{0};
    const auto increment = [&] { a.store(a.load() + 1); };
    model::thread other(increment);
    increment();
    other.join();
    model::assert_that(a.load() == 2, "no increment is lost");
  };
  const auto found = check({}, body);
  EXPECT_THAT(found.failure, HasSubstr("no increment is lost"));
  EXPECT_THAT(found.story, HasSubstr("store"));
  EXPECT_EQ(found.preemptions, 1U) << "the simplest failing schedule comes first";
  const auto again = check({.replay = found.trace}, body);
  EXPECT_EQ(again.failure, found.failure);
  EXPECT_EQ(again.schedules, 1U);
}

}  // namespace

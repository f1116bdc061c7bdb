// SPDX-License-Identifier: Apache-2.0
#include <gyre/testing/explore.hpp>

#include <gyre/base/operation.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/sync/mutex.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>

namespace explore_test {
namespace {

using namespace std::chrono_literals;
using gyre::testing::exploration;
using gyre::testing::explore;
using testing::HasSubstr;

gyre::task<> append_twice(std::string& log, char letter) {
  co_await gyre::yield();
  log += letter;
  co_await gyre::yield();
  log += letter;
}

gyre::task<> add_one(int& count) {
  co_await gyre::yield();
  const int seen = count;
  co_await gyre::yield();
  count = seen + 1;
}

// The program of a lost update.
gyre::task<> count_to_two(gyre::executor&) {
  int count = 0;
  co_await gyre::when_all(add_one(count), add_one(count));
  if (count != 2) throw std::runtime_error("an update was lost");
}

gyre::task<> lock_both(gyre::mutex& first, gyre::mutex& second) {
  const auto outer = co_await first.lock();
  co_await gyre::yield();
  const auto inner = co_await second.lock();
}

gyre::task<> lock_in_both_orders(gyre::executor&) {
  gyre::mutex a;
  gyre::mutex b;
  co_await gyre::when_all(lock_both(a, b), lock_both(b, a));
}

gyre::task<> yield_for_ever(gyre::executor&) {
  for (;;) co_await gyre::yield();
}

gyre::task<> sleep_an_hour(gyre::executor&) { co_await gyre::sleep_for(1h); }

std::set<std::string> orders(std::uint64_t first_seed, std::size_t schedules) {
  std::set<std::string> seen;
  const exploration found =
      explore(schedules,
              [&](gyre::executor&) -> gyre::task<> {
                std::string log;
                co_await gyre::when_all(append_twice(log, 'a'), append_twice(log, 'b'));
                seen.insert(log);
              },
              {.first_seed = first_seed});
  EXPECT_TRUE(found.passed()) << found.message;
  EXPECT_EQ(found.schedules, schedules);
  return seen;
}

TEST(Explore, RunsEveryOrderOfTwoCoroutines) {
  EXPECT_THAT(orders(1, 200),
              testing::UnorderedElementsAre("aabb", "abab", "abba", "baab", "baba", "bbaa"));
}

TEST(Explore, OneSeedGivesOneOrder) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) EXPECT_EQ(orders(seed, 1), orders(seed, 1));
}

TEST(Explore, FindsALostUpdateAndReplaysIt) {
  const exploration found = explore(200, count_to_two);
  ASSERT_FALSE(found.passed());
  EXPECT_THAT(found.message, HasSubstr("an update was lost"));
  EXPECT_THAT(found.message, HasSubstr("GYRE_TESTING_SEED=" + std::to_string(*found.failed_seed)));
  const exploration again = explore(1, count_to_two, {.first_seed = *found.failed_seed});
  EXPECT_EQ(again.failed_seed, found.failed_seed);
  EXPECT_THROW(std::rethrow_exception(again.error), std::runtime_error);
}

TEST(Explore, TheEnvironmentChoosesTheOnlySeed) {
  const exploration found = explore(200, count_to_two);
  ASSERT_FALSE(found.passed());
  ::setenv("GYRE_TESTING_SEED", std::to_string(*found.failed_seed).c_str(), 1);
  const exploration again = explore(200, count_to_two);
  ::setenv("GYRE_TESTING_SEED", "some", 1);
  EXPECT_THROW(explore(200, count_to_two), std::invalid_argument);
  ::unsetenv("GYRE_TESTING_SEED");
  EXPECT_EQ(again.schedules, 1u);
  EXPECT_EQ(again.failed_seed, found.failed_seed);
}

TEST(Explore, ReportsADeadlockAndEndsItsCoroutines) {
  const auto alive = std::make_shared<int>();
  const exploration found = explore(200, [&](gyre::executor& where) -> gyre::task<> {
    const auto held = alive;
    co_await lock_in_both_orders(where);
  });
  ASSERT_FALSE(found.passed());
  EXPECT_THAT(found.message, HasSubstr("deadlock"));
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(Explore, ReportsTheSeedOfAnExceptionOutsideOfTheCoroutine) {
  const exploration at_once =
      explore(3, [](gyre::executor&) -> gyre::task<> { throw std::runtime_error("no program"); });
  EXPECT_EQ(at_once.schedules, 1u);
  EXPECT_THAT(at_once.message, HasSubstr("no program"));
  struct failing : gyre::operation {
    failing() : operation([](operation&) { throw std::runtime_error("posted"); }) {}
  } fails;
  const exploration later = explore(3, [&fails](gyre::executor& where) -> gyre::task<> {
    where.post(fails);
    co_return;
  });
  EXPECT_THAT(later.message, HasSubstr("posted"));
}

TEST(Explore, ReportsACoroutineThatSleepsForEver) {
  const auto sleeps = [](gyre::executor&) {
    return gyre::as_task(gyre::sleep_for(std::chrono::nanoseconds::max()));
  };
  const exploration found = explore(3, sleeps);
  ASSERT_FALSE(found.passed());
  EXPECT_THAT(found.message, HasSubstr("deadlock"));
}

TEST(Explore, ReportsAProgramThatDoesNotEnd) {
  const exploration found = explore(5, yield_for_ever, {.step_limit = 100});
  ASSERT_FALSE(found.passed());
  EXPECT_EQ(found.schedules, 1u);
  EXPECT_THAT(found.message, HasSubstr("after 100 steps"));
}

TEST(Explore, TimePassesAtOnce) { EXPECT_TRUE(explore(10, sleep_an_hour).passed()); }

// Sets the event after some turns; does not fail unless a timer overtakes it.
gyre::task<> wait_with_limit(gyre::executor&) {
  gyre::manual_reset_event event;
  co_await gyre::when_all(
      [](gyre::manual_reset_event& to_set) -> gyre::task<> {
        for (int i = 0; i < 3; ++i) co_await gyre::yield();
        to_set.set();
      }(event),
      [](gyre::manual_reset_event& awaited) -> gyre::task<> {
        co_await gyre::with_timeout(awaited.wait(), 1s);
      }(event));
}

TEST(Explore, TimersOvertakeOperationsOnlyIfAllowed) {
  EXPECT_TRUE(explore(100, wait_with_limit).passed());
  EXPECT_FALSE(explore(100, wait_with_limit, {.early_timers = true}).passed());
}

TEST(Explore, AProgramThatAStopEndsPasses) {
  int ended = 0;
  const exploration found = explore(50,
                                    [&](gyre::executor&) -> gyre::task<> {
                                      gyre::manual_reset_event event;
                                      event.set();
                                      for (int i = 0; i < 5; ++i) co_await gyre::sleep_for(1s);
                                      ++ended;
                                    },
                                    {.stops = true});
  EXPECT_TRUE(found.passed()) << found.message;
  EXPECT_LT(ended, 50);
}

TEST(Explore, AsksTheTestFramework) {
  int schedules = 0;
  const exploration found =
      explore(10, sleep_an_hour, {.has_failed = [&] { return ++schedules == 3; }});
  EXPECT_EQ(found.schedules, 3u);
  EXPECT_EQ(found.failed_seed, 3u);
  EXPECT_EQ(found.error, nullptr);
}

gyre::task<> fails_after(int yields) {
  for (int each = 0; each < yields; ++each) co_await gyre::yield();
  throw std::runtime_error("lost");
}

TEST(ExploreDeathTest, AScheduleThatAbortsTellsItsSeed) {
  const auto detach = [](gyre::executor& where) -> gyre::task<> {
    gyre::spawn(where, fails_after(2));
    co_await gyre::yield();
  };
  EXPECT_DEATH(explore(10, detach, {.first_seed = 77}), "GYRE_TESTING_SEED=77");
  EXPECT_TRUE(explore(1, [](gyre::executor&) -> gyre::task<> { co_return; }).passed());
  EXPECT_DEATH(std::abort(), "^$") << "not within a schedule";
}

TEST(Explore, RefusesAnEmptyProgram) { EXPECT_THROW(explore(1, nullptr), std::invalid_argument); }

}  // namespace
}  // namespace explore_test

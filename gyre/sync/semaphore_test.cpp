// SPDX-License-Identifier: Apache-2.0
// Tests of semaphore beyond what wait_test.cpp tests of all primitives.
#include <gyre/sync/semaphore.hpp>

#include <gyre/base/clock.hpp>
#include <gyre/sync/detail/blocked_acquire.hpp>
#include <gyre/sync/sync_test_support.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <tests/support/thread_executor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <future>
#include <utility>
#include <vector>

namespace semaphore_test {
namespace {

using gyre::inplace_stop_source;
using gyre::semaphore;
using gyre::semaphore_permit;
using gyre::task;
using gyre::detail::blocked_acquire;
using gyre::test::started;
using gyre::test::thread_executor;
using gyre::test::unless_sanitized;
using gyre::testing::manual_executor;
using ::testing::ElementsAre;

static_assert(sizeof(semaphore) == 24);
constinit semaphore static_semaphore(3);  // needs no start-up code

task<> takes(semaphore& from, std::uint64_t permits, std::vector<int>& order, int number) {
  co_await from.acquire(permits);
  order.push_back(number);
}

TEST(Semaphore, CountsItsPermits) {
  EXPECT_EQ(static_semaphore.available(), 3U);
  EXPECT_TRUE(static_semaphore.try_acquire(2));
  EXPECT_EQ(static_semaphore.available(), 1U);
  EXPECT_FALSE(static_semaphore.try_acquire(2));
  EXPECT_TRUE(static_semaphore.try_acquire());
  EXPECT_FALSE(static_semaphore.try_acquire());
  static_semaphore.release(3);
  EXPECT_EQ(static_semaphore.available(), 3U);
}

TEST(Semaphore, HoldsAsManyAsItSays) {
  semaphore full(semaphore::max());
  EXPECT_EQ(full.available(), semaphore::max());
  EXPECT_TRUE(full.try_acquire(semaphore::max()));
  EXPECT_EQ(full.available(), 0U);
}

TEST(Semaphore, GivesAsManyAsAreFree) {
  semaphore permits(10);
  EXPECT_EQ(permits.try_acquire_some(7), 7U);
  EXPECT_EQ(permits.try_acquire_some(7), 3U);
  EXPECT_EQ(permits.try_acquire_some(7), 0U);
  EXPECT_EQ(permits.available(), 0U);
}

TEST(Semaphore, PermitGivesBackWhatItHolds) {
  semaphore permits(5);
  {
    semaphore_permit two = gyre::sync_wait(permits.permit(2));
    EXPECT_EQ(two.count(), 2U);
    EXPECT_EQ(permits.available(), 3U);
    semaphore_permit moved = std::move(two);
    EXPECT_EQ(two.count(), 0U);  // NOLINT(bugprone-use-after-move): it is empty
    moved = gyre::sync_wait(permits.permit());
    EXPECT_EQ(permits.available(), 4U) << "assignment gives back what was held";
    moved.release();
    EXPECT_EQ(permits.available(), 5U);
    moved = gyre::sync_wait(permits.permit(4));
    EXPECT_EQ(moved.forget(), 4U);
  }
  EXPECT_EQ(permits.available(), 1U) << "those that were forgotten are not given back";
}

TEST(Semaphore, WakesInTheOrderOfComingAlsoWhoWantsMany) {
  manual_executor here;
  semaphore permits(0);
  std::vector<int> order;
  started giant(here, takes(permits, 3, order, 3));
  started small(here, takes(permits, 1, order, 1));
  permits.release(2);
  EXPECT_EQ(here.run_all(), 0U);
  EXPECT_FALSE(permits.try_acquire()) << "nobody overtakes those who wait";
  permits.release(1);
  here.run_all();
  EXPECT_THAT(order, ElementsAre(3));
  permits.release(1);
  here.run_all();
  EXPECT_THAT(order, ElementsAre(3, 1));
}

TEST(Semaphore, OneReleaseWakesAllForWhomThereIsEnough) {
  manual_executor here;
  semaphore permits(0);
  std::vector<int> order;
  started first(here, takes(permits, 1, order, 1));
  started second(here, takes(permits, 2, order, 2));
  started third(here, takes(permits, 2, order, 3));
  permits.release(4);
  here.run_all();
  EXPECT_THAT(order, ElementsAre(1, 2));
  EXPECT_EQ(permits.available(), 1U);
  permits.release();
  here.run_all();
}

TEST(Semaphore, SmallGoesOnWhenTheGiantBeforeItGivesUp) {
  manual_executor here;
  semaphore permits(2);
  std::vector<int> order;
  inplace_stop_source source;
  auto gives_up = [&]() -> task<> {
    co_await permits.acquire(9);
    ADD_FAILURE() << "was not cancelled";
  };
  started giant(here, gives_up(), source.get_token());
  started small(here, takes(permits, 2, order, 1));
  EXPECT_EQ(here.run_all(), 0U);
  source.request_stop();
  here.run_all();
  EXPECT_THAT(order, ElementsAre(1));
}

TEST(Semaphore, SmallGoesOnWhenTheGiantBeforeItIsDestroyed) {
  manual_executor here;
  semaphore permits(2);
  std::vector<int> order;
  started giant(here, takes(permits, 9, order, 9));
  started small(here, takes(permits, 2, order, 1));
  giant.drop();
  here.run_all();
  EXPECT_THAT(order, ElementsAre(1));
}

TEST(Semaphore, ServesItsWaitersWithFewerOnRequest) {
  manual_executor here;
  semaphore permits(0);
  std::vector<std::uint64_t> given;
  auto takes_up_to = [&](std::uint64_t most) -> task<> {
    semaphore_permit held = co_await permits.permit(most);
    given.push_back(held.forget());
  };
  started giant(here, takes_up_to(9));
  started small(here, takes_up_to(2));
  started last(here, takes_up_to(3));
  permits.release(3);
  EXPECT_EQ(here.run_all(), 0U);
  permits.serve_waits(2);
  here.run_all();
  EXPECT_THAT(given, ElementsAre(2, 1));
  permits.release(2);
  EXPECT_EQ(here.run_all(), 0U) << "the next one still waits for three";
  permits.serve_waits(1);
  here.run_all();
  EXPECT_THAT(given, ElementsAre(2, 1, 1));
  EXPECT_FALSE(permits.has_waiters());
  EXPECT_EQ(permits.available(), 1U);
}

TEST(Semaphore, ClosingEndsAllWaitsWithoutPermits) {
  manual_executor here;
  semaphore permits(1);
  int empty = 0;
  auto waits_in_vain = [&]() -> task<> {
    if ((co_await permits.permit(2)).count() == 0) ++empty;
  };
  started before(here, waits_in_vain());
  permits.close();
  here.run_all();
  EXPECT_EQ(empty, 1);
  started after(here, waits_in_vain());
  here.run_all();
  EXPECT_EQ(empty, 2);
  EXPECT_EQ(gyre::sync_wait(permits.permit()).count(), 1U) << "free permits can still be taken";
}

// A thread waits in the same line as coroutines.
TEST(Semaphore, ServesABlockedThreadInItsTurn) {
  manual_executor here;
  semaphore permits(0);
  std::vector<int> order;
  blocked_acquire thread(permits, 2);
  started behind(here, takes(permits, 1, order, 1));
  permits.release(1);
  EXPECT_EQ(here.run_all(), 0U);
  thread.sleep_until(gyre::steady_time{});
  EXPECT_FALSE(thread.has_ended());
  permits.release(2);
  EXPECT_TRUE(thread.has_ended());
  EXPECT_EQ(thread.end(), 2U);
  here.run_all();
  EXPECT_THAT(order, ElementsAre(1));
}

TEST(Semaphore, ABlockedThreadThatGivesUpTakesNothing) {
  manual_executor here;
  semaphore permits(1);
  std::vector<int> order;
  blocked_acquire thread(permits, 2);
  started behind(here, takes(permits, 1, order, 1));
  EXPECT_EQ(thread.end(), 0U);
  here.run_all();
  EXPECT_THAT(order, ElementsAre(1)) << "the one behind it has enough";
}

TEST(Semaphore, LimitsHowManyAreInside) {
  const int times = unless_sanitized(20'000);
  semaphore permits(2);
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  auto enters = [&]() -> task<> {
    for (int i = 0; i < times; ++i) {
      const semaphore_permit permit = co_await permits.permit();
      const int now = ++inside;
      if (now > most) most = now;
      co_await gyre::yield();
      --inside;
    }
  };
  thread_executor threads[2];
  std::vector<std::future<void>> ends;
  for (int i = 0; i < 6; ++i) ends.push_back(gyre::spawn_future(threads[i % 2], enters()));
  for (auto& end : ends) end.get();
  EXPECT_LE(most, 2);
  EXPECT_EQ(permits.available(), 2U);
}

#if !defined(NDEBUG) && defined(GTEST_HAS_DEATH_TEST)
TEST(SemaphoreDeathTest, DestroyedWhileACoroutineWaitsSaysSo) {
  auto forgets = [] {
    manual_executor here;
    std::vector<int> order;
    auto permits = std::make_unique<semaphore>(0U);
    started waiting(here, takes(*permits, 1, order, 1));
    permits.reset();
  };
  EXPECT_DEATH(forgets(), "destroyed while a coroutine waited");
}
#endif

}  // namespace
}  // namespace semaphore_test

// SPDX-License-Identifier: Apache-2.0
// Tests of latch beyond what wait_test.cpp tests of all primitives.
#include <gyre/sync/latch.hpp>

#include <gyre/sync/sync_test_support.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <tests/support/thread_executor.hpp>

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <vector>

namespace latch_test {
namespace {

using gyre::latch;
using gyre::task;
using gyre::test::foreign;
using gyre::test::started;
using gyre::test::thread_executor;
using gyre::test::unless_sanitized;
using gyre::testing::manual_executor;

constinit latch static_latch(0);  // needs no start-up code

task<> waits(latch& at, int& passed) {
  co_await at.wait();
  ++passed;
}

TEST(Latch, ALatchOfZeroIsOpen) {
  EXPECT_TRUE(static_latch.try_wait());
  gyre::sync_wait(static_latch.wait());
}

TEST(Latch, LetsAllPassWhenTheLastHasArrived) {
  manual_executor here;
  latch all(3);
  int passed = 0;
  started first(here, waits(all, passed));
  started second(here, waits(all, passed));
  all.count_down(2);
  EXPECT_FALSE(all.try_wait());
  EXPECT_EQ(here.run_all(), 0U);
  all.count_down();
  EXPECT_TRUE(all.try_wait());
  EXPECT_EQ(here.run_all(), 2U);
  EXPECT_EQ(passed, 2);
}

TEST(Latch, ArrivesAndWaits) {
  manual_executor here;
  latch all(3);
  auto arrives = [&]() -> task<> { co_await all.arrive_and_wait(2); };
  started first(here, arrives());
  EXPECT_FALSE(first.done());
  auto arrives_last = [&]() -> task<> { co_await all.arrive_and_wait(); };
  started last(here, arrives_last());
  EXPECT_TRUE(last.done()) << "the last need not wait";
  here.run_all();
  EXPECT_TRUE(first.done());
}

TEST(Latch, CancelledArrivalCountsAllTheSame) {
  manual_executor here;
  latch all(2);
  gyre::inplace_stop_source source;
  auto gives_up = [&]() -> task<> {
    co_await all.arrive_and_wait();
    ADD_FAILURE() << "was not cancelled";
  };
  started quitter(here, gives_up(), source.get_token());
  source.request_stop();
  here.run_all();
  EXPECT_TRUE(quitter.done());
  all.count_down();
  EXPECT_TRUE(all.try_wait());
}

TEST(Latch, ManyForeignWaitersNeedNoStack) {
  const int many = unless_sanitized(1'000'000);
  latch all(1);
  int passed = 0;
  auto waits_inline = [](latch& at, int& count) -> foreign {
    co_await at.wait();
    ++count;
  };
  for (int i = 0; i < many; ++i) waits_inline(all, passed);
  all.count_down();
  EXPECT_EQ(passed, many);
}

TEST(Latch, MayBeDestroyedByWhoFindsItOpen) {
  const int rounds = unless_sanitized(10'000);
  thread_executor one;
  thread_executor other;
  auto arrives = [](latch& at) -> task<> {
    at.count_down();
    co_return;
  };
  auto destroys = [](std::unique_ptr<latch> mine) -> task<> {
    co_await mine->arrive_and_wait();
    mine.reset();
  };
  for (int i = 0; i < rounds; ++i) {
    auto both = std::make_unique<latch>(2U);
    auto first = gyre::spawn_future(one, arrives(*both));
    auto second = gyre::spawn_future(other, destroys(std::move(both)));
    first.get();
    second.get();
  }
}

#if !defined(NDEBUG) && defined(GTEST_HAS_DEATH_TEST)
TEST(LatchDeathTest, ThatTooManyArriveAtSaysSo) {
  latch one(1);
  one.count_down();
  EXPECT_DEATH(one.count_down(), "more arrived");
}
#endif

}  // namespace
}  // namespace latch_test

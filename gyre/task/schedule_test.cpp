// SPDX-License-Identifier: Apache-2.0
// Tests of going to executors, of giving way on them, and of coming back.
#include <gyre/task/schedule.hpp>

#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <tests/support/thread_executor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace schedule_test {
namespace {

using gyre::sync_wait;
using gyre::task;
using gyre::test::this_thread_id;
using gyre::test::thread_executor;
using gyre::testing::manual_executor;
using testing::ElementsAre;

task<> writes(std::vector<int>& log, int first, int last) {
  for (int i = first; i <= last; ++i) {
    log.push_back(i);
    co_await gyre::yield();
  }
}

TEST(Yield, LetsEverythingThatWaitsRunFirst) {
  manual_executor executor;
  std::vector<int> log;
  gyre::spawn(executor, writes(log, 1, 3));
  gyre::spawn(executor, writes(log, 11, 13));
  executor.run_all();
  EXPECT_THAT(log, ElementsAre(1, 11, 2, 12, 3, 13));
}

TEST(Schedule, GoesThroughTheQueueAlsoOfItsOwnExecutor) {
  manual_executor executor;
  std::vector<int> log;
  auto schedules = [](manual_executor& own, std::vector<int>& order) -> task<> {
    order.push_back(1);
    co_await gyre::schedule(own);
    order.push_back(3);
  };
  gyre::spawn(executor, schedules(executor, log));
  gyre::spawn(executor, writes(log, 2, 2));
  executor.run_all();
  EXPECT_THAT(log, ElementsAre(1, 2, 3));
}

TEST(ResumeOn, GoesOnAtOnceWhereItIsAlready) {
  manual_executor executor;
  auto stays = [](gyre::executor& own) -> task<> {
    co_await gyre::resume_on(own);
    co_await gyre::resume_on(own);
  };
  gyre::spawn(executor, stays(executor));
  EXPECT_EQ(executor.run_all(), 1);
}

TEST(ResumeOn, MakesAllFurtherWaitsEndThere) {
  thread_executor there;
  auto moves = [](gyre::executor& to) -> task<> { co_await gyre::resume_on(to); };
  auto caller = [](auto move, thread_executor& to) -> task<std::thread::id> {
    co_await move(to);
    co_await gyre::yield();
    co_return this_thread_id();
  };
  EXPECT_EQ(sync_wait(caller(moves, there)), there.id());
}

TEST(ResumeOn, HopsBetweenThreadsLoseNothing) {
  thread_executor one;
  thread_executor other;
  auto hops = [](thread_executor& here, thread_executor& there) -> task<int> {
    int count = 0;
    for (int i = 0; i < 2000; ++i) {
      co_await gyre::schedule(here);
      count += this_thread_id() == here.id() ? 1 : 0;
      co_await gyre::schedule(there);
      count += this_thread_id() == there.id() ? 1 : 0;
    }
    co_return count;
  };
  EXPECT_EQ(sync_wait(hops(one, other)), 4000);
}

// The threads on which the work ran and on which its caller went on.
struct places {
  std::thread::id work;
  std::thread::id caller;
};

template <class Work>
task<places> calls(gyre::executor& there, Work work) {
  places seen;
  try {
    co_await gyre::on(there, work(seen.work));
  } catch (const std::runtime_error&) {
  }
  seen.caller = this_thread_id();
  co_return seen;
}

TEST(On, RunsThereAndComesBack) {
  thread_executor there;
  auto work = [](std::thread::id& ran_on) -> task<> {
    ran_on = this_thread_id();
    co_return;
  };
  const places seen = sync_wait(calls(there, work));
  EXPECT_EQ(seen.work, there.id());
  EXPECT_EQ(seen.caller, this_thread_id());
}

TEST(On, ComesBackAlsoWhenItThrows) {
  thread_executor there;
  auto work = [](std::thread::id& ran_on) -> task<int> {
    ran_on = this_thread_id();
    throw std::runtime_error("there");
    co_return 0;
  };
  const places seen = sync_wait(calls(there, work));
  EXPECT_EQ(seen.work, there.id());
  EXPECT_EQ(seen.caller, this_thread_id());
  std::thread::id ran_on;
  EXPECT_THROW(sync_wait(gyre::on(there, work(ran_on))), std::runtime_error);
}

TEST(On, ComesBackFromWhereverTheWorkWent) {
  thread_executor there;
  thread_executor elsewhere;
  auto work = [&elsewhere](std::thread::id& ran_on) -> task<> {
    co_await gyre::resume_on(elsewhere);
    ran_on = this_thread_id();
  };
  const places seen = sync_wait(calls(there, work));
  EXPECT_EQ(seen.work, elsewhere.id());
  EXPECT_EQ(seen.caller, this_thread_id());
}

TEST(On, GivesResultsOfEveryKind) {
  thread_executor there;
  std::string word = "word";
  auto refers = [](std::string& to) -> task<std::string&> { co_return to; };
  EXPECT_EQ(&sync_wait(gyre::on(there, refers(word))), &word);
  auto makes = []() -> task<std::unique_ptr<int>> { co_return std::make_unique<int>(5); };
  EXPECT_EQ(*sync_wait(gyre::on(there, makes())), 5);
  // on() also takes an awaitable that is not a task.
  EXPECT_EQ(&sync_wait(gyre::on(there, gyre::current_executor())), &there);
}

TEST(On, Nests) {
  thread_executor outer;
  thread_executor inner;
  auto where = []() -> task<std::thread::id> { co_return this_thread_id(); };
  auto nests = [](auto work, gyre::executor& there) -> task<std::vector<std::thread::id>> {
    std::vector<std::thread::id> seen;
    seen.push_back(co_await gyre::on(there, work()));
    seen.push_back(this_thread_id());
    co_return seen;
  };
  EXPECT_THAT(sync_wait(gyre::on(outer, nests(where, inner))), ElementsAre(inner.id(), outer.id()));
}

TEST(Context, TellsExecutorAndStopTokenWithoutWaiting) {
  manual_executor executor;
  gyre::inplace_stop_source source;
  gyre::executor* seen_executor = nullptr;
  gyre::inplace_stop_token seen_token;
  auto looks = [](gyre::executor*& where, gyre::inplace_stop_token& stop) -> task<> {
    where = &co_await gyre::current_executor();
    stop = co_await gyre::current_stop_token();
  };
  gyre::spawn(executor, looks(seen_executor, seen_token), {.stop = source.get_token()});
  EXPECT_EQ(executor.run_all(), 1);
  EXPECT_EQ(seen_executor, &executor);
  EXPECT_EQ(seen_token, source.get_token());
}

}  // namespace
}  // namespace schedule_test

// SPDX-License-Identifier: Apache-2.0
// Tests of collecting with a limit, in virtual time and on threads.
#include <gyre/task/collect.hpp>

#include <gyre/base/slab.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>
#include <tests/support/sanitizers.hpp>
#include <tests/support/thread_executor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <ranges>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace collect_test {
namespace {

using namespace std::chrono_literals;
using gyre::collect;
using gyre::inplace_stop_source;
using gyre::sleep_for;
using gyre::sync_wait;
using gyre::task;
using gyre::test::thread_executor;
using gyre::test::unless_sanitized;
using gyre::testing::manual_executor;
using gyre::testing::run_in_virtual_time;
using std::chrono::nanoseconds;
using testing::ElementsAre;

// Counts the tasks that run and those that have run.
struct census {
  int running = 0;
  int most = 0;
  int started = 0;
  int ended = 0;
  std::vector<nanoseconds> starts;
};
task<int> counted(census& all, manual_executor& executor, nanoseconds delay, int value) {
  struct at_end {
    census& of;
    ~at_end() {
      --of.running;
      ++of.ended;
    }
  } const guard{all};
  ++all.started;
  all.most = std::max(all.most, ++all.running);
  all.starts.push_back(executor.now().time_since_epoch());
  co_await sleep_for(delay);
  co_return value;
}

class Collect : public testing::Test {
 protected:
  template <class T>
  T run(task<T> work) {
    return run_in_virtual_time(executor_, std::move(work));
  }
  task<int> one(nanoseconds delay, int value) { return counted(census_, executor_, delay, value); }

  manual_executor executor_;
  const gyre::steady_time start_ = executor_.now();
  census census_;
};

TEST_F(Collect, GivesResultsInTheOrderOfTheRange) {
  std::vector<task<int>> tasks;
  for (int i = 0; i < 6; ++i) tasks.push_back(one(std::chrono::seconds(7 - i), i));
  EXPECT_THAT(run(collect(std::move(tasks), 3)), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(census_.most, 3);
}

TEST_F(Collect, TakesAFunction) {
  EXPECT_THAT(run(collect(
                  5, [this](std::size_t i) { return one(1s, static_cast<int>(i * i)); }, 2)),
              ElementsAre(0, 1, 4, 9, 16));
  EXPECT_EQ(census_.most, 2);
}

TEST_F(Collect, TakesAViewAndThingsThatAreNotTasks) {
  run(collect(std::views::iota(0, 4) |
                  std::views::transform([](int i) { return sleep_for(std::chrono::seconds(i)); }),
              2));
  EXPECT_GE(executor_.now(), start_ + 3s);
}

TEST_F(Collect, GivesMoveOnlyValuesReferencesAndThoseWithoutADefault) {
  const auto pointers = sync_wait(collect(
      3,
      [](std::size_t i) -> task<std::unique_ptr<std::size_t>> {
        co_return std::make_unique<std::size_t>(i);
      },
      2));
  EXPECT_EQ(*pointers[2], 2);

  std::vector<int> values{1, 2, 3};
  const std::vector<std::reference_wrapper<int>> references = sync_wait(collect(
      3,
      [&values](std::size_t i) { return [](int& to) -> task<int&> { co_return to; }(values[i]); },
      2));
  EXPECT_EQ(&references[1].get(), &values[1]);

  struct no_default {
    explicit no_default(bool to) : value(to) {}
    bool value;
  };
  const auto made = sync_wait(
      collect(2, [](std::size_t i) -> task<no_default> { co_return no_default(i == 1); }, 2));
  EXPECT_TRUE(made[1].value);
  EXPECT_THAT(sync_wait(collect(
                  2, [](std::size_t i) -> task<bool> { co_return i == 1; }, 2)),
              ElementsAre(false, true));
}

TEST_F(Collect, AnEmptyRangeGivesNoResults) {
  EXPECT_TRUE(sync_wait(collect(std::vector<task<int>>(), 3)).empty());
}

TEST_F(Collect, StartsTheNextAsSoonAsOneEnds) {
  // If tasks ran in batches of two, the third would wait for the first.
  run(collect(5, [this](std::size_t i) { return one(i == 0 ? 10s : 1s, static_cast<int>(i)); }, 2));
  std::vector<int> seconds;
  for (const nanoseconds each : census_.starts) {
    seconds.push_back(static_cast<int>((each - start_.time_since_epoch()) / 1s));
  }
  EXPECT_THAT(seconds, ElementsAre(0, 0, 1, 2, 3));
  EXPECT_EQ(census_.most, 2);
}

TEST_F(Collect, LimitAboveTheCountStartsAll) {
  run(collect(5, [this](std::size_t i) { return one(1s, static_cast<int>(i)); }, 100));
  EXPECT_EQ(census_.most, 5);
}

TEST_F(Collect, LimitOfZeroIsAnError) {
  EXPECT_THROW(static_cast<void>(collect(std::vector<task<>>(), 0)), std::invalid_argument);
}

TEST_F(Collect, FirstErrorStopsTheOthersAndStartsNoMore) {
  const auto make = [this](std::size_t i) -> task<int> {
    if (i != 2) return one(1h, 0);
    return []() -> task<int> {
      co_await sleep_for(1s);
      throw std::runtime_error("failed");
    }();
  };
  EXPECT_THROW(run(collect(1000, make, 4)), std::runtime_error);
  EXPECT_EQ(census_.started, 3);
  EXPECT_EQ(census_.ended, 3);
  EXPECT_EQ(executor_.timers_pending(), 0);
}

TEST_F(Collect, RangeThatThrowsStopsAll) {
  const auto make = [this](std::size_t i) -> task<int> {
    if (i == 2) throw std::runtime_error("no more");
    return one(1h, 0);
  };
  EXPECT_THROW(run(collect(1000, make, 4)), std::runtime_error);
  EXPECT_EQ(census_.ended, 2);
}

TEST_F(Collect, EmptyTaskIsAnError) {
  std::vector<task<int>> tasks;
  tasks.push_back(one(1s, 0));
  tasks.emplace_back();
  EXPECT_THROW(run(collect(std::move(tasks), 2)), std::logic_error);
  EXPECT_EQ(census_.ended, 1);
}

TEST_F(Collect, IsStoppedAsAWhole) {
  inplace_stop_source source;
  auto result = gyre::spawn_future(
      executor_, collect(1000, [this](std::size_t) { return one(1h, 0); }, 3), source.get_token());
  executor_.run_all();
  source.request_stop();
  executor_.run_all();
  try {
    result.get();
    ADD_FAILURE() << "was not stopped";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::operation_canceled);
  }
  EXPECT_EQ(census_.started, 3);
  EXPECT_EQ(census_.ended, 3);
}

TEST_F(Collect, StartsNoMoreAfterAStopThatNobodyHeeds) {
  inplace_stop_source source;
  std::size_t started = 0;
  auto work = collect(
      1000,
      [&](std::size_t) -> task<> {
        if (++started == 10) source.request_stop();
        co_return;
      },
      3);
  EXPECT_THROW(sync_wait(std::move(work), source.get_token()), std::system_error);
  EXPECT_EQ(started, 10);
}

TEST_F(Collect, MillionTasksMadeOneByOneTakeBoundedMemory) {
  constexpr std::size_t count = unless_sanitized<std::size_t>(1'000'000, 5);
  std::size_t most = 0;
  std::size_t ran = 0;
  const std::size_t before = gyre::read_slab_stats().blocks_in_use;
  sync_wait(collect(
      count,
      [&](std::size_t i) -> task<> {
        ++ran;
        if (i % 1024 == 0) most = std::max(most, gyre::read_slab_stats().blocks_in_use);
        if (i % 4 == 0) co_await gyre::yield();
      },
      8));
  EXPECT_EQ(ran, count);
  EXPECT_LT(most, before + 1000);
}

TEST_F(Collect, ChildrenMayEndOnOtherThreads) {
  thread_executor one_thread;
  thread_executor other;
  for (int round = 0; round < 20; ++round) {
    const std::vector<int> results = sync_wait(collect(
        100,
        [&](std::size_t i) {
          return [](gyre::executor& to, int value) -> task<int> {
            co_await gyre::resume_on(to);
            co_return value;
          }(i % 2 == 0 ? one_thread : other, static_cast<int>(i));
        },
        8));
    for (int i = 0; i < 100; ++i) EXPECT_EQ(results[static_cast<std::size_t>(i)], i);
  }
}

TEST_F(Collect, ErrorsStopsAndEndsRaceOnSeveralThreads) {
  thread_executor one_thread;
  thread_executor other;
  for (int round = 0; round < 200; ++round) {
    inplace_stop_source source;
    std::jthread stopper([&] { source.request_stop(); });
    std::atomic<int> ran = 0;
    try {
      sync_wait(collect(
                    50,
                    [&](std::size_t i) {
                      return [](gyre::executor& to, std::atomic<int>& count, bool fail) -> task<> {
                        co_await gyre::resume_on(to);
                        ++count;
                        if (fail) throw std::runtime_error("failed");
                      }(i % 2 == 0 ? one_thread : other, ran, i == 30);
                    },
                    5),
                source.get_token());
      ADD_FAILURE() << "one of them fails";
    } catch (const std::runtime_error&) {
      // While task 30 waits for its thread, odd tasks overtake it on the other thread, until the
      // five tasks under way are 30, 32, 34, 36 and 38.
      EXPECT_LE(ran, 39);
    }
  }
}

}  // namespace
}  // namespace collect_test

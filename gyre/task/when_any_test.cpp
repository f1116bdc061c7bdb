// SPDX-License-Identifier: Apache-2.0
// Tests of when_any, in virtual time and on threads.
#include <gyre/task/when_any.hpp>

#include <gyre/task/schedule.hpp>
#include <gyre/task/shielded.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>
#include <tests/support/thread_executor.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace when_any_test {
namespace {

using namespace std::chrono_literals;
using gyre::inplace_stop_source;
using gyre::sleep_for;
using gyre::sync_wait;
using gyre::task;
using gyre::when_any;
using gyre::test::thread_executor;
using gyre::testing::manual_executor;
using gyre::testing::run_in_virtual_time;
using std::chrono::nanoseconds;

template <class T>
task<T> after(nanoseconds delay, T value) {
  co_await sleep_for(delay);
  co_return value;
}
template <class T>
task<T> ready(T value) {
  co_return value;
}
task<> fails_after(nanoseconds delay) {
  co_await sleep_for(delay);
  throw std::runtime_error("failed");
}
// Counts the coroutines that started and those that ended, by a return or an exception.
struct living {
  int started = 0;
  int ended = 0;
};
task<> lives(living& counted, nanoseconds delay) {
  ++counted.started;
  struct at_end {
    int& ended;
    ~at_end() { ++ended; }
  } const count{counted.ended};
  co_await sleep_for(delay);
}

TEST(WhenAny, GivesTheFirstOfSeveralTypes) {
  manual_executor executor;
  const gyre::when_any_result<int, std::string, std::monostate> first = run_in_virtual_time(
      executor, when_any(after(3s, 1), after(1s, std::string("first")), sleep_for(2s)));
  EXPECT_EQ(first.index, 1);
  EXPECT_EQ(std::get<1>(first.values), "first");
}

TEST(WhenAny, GivesReferencesAndMoveOnlyValues) {
  int value = 0;
  const auto reference = sync_wait(when_any([](int& to) -> task<int&> { co_return to; }(value)));
  EXPECT_EQ(&std::get<0>(reference.values)->get(), &value);
  const auto pointer = sync_wait(when_any(ready(std::make_unique<int>(4)), ready(5)));
  EXPECT_EQ(**std::get<0>(pointer.values), 4);
}

TEST(WhenAny, StopsAndAwaitsTheOthers) {
  manual_executor executor;
  living counted;
  const auto start = executor.now();
  const auto first = run_in_virtual_time(
      executor, when_any(lives(counted, 100h), lives(counted, 1s), lives(counted, 100h)));
  EXPECT_EQ(first.index, 1);
  EXPECT_EQ(counted.started, 3);
  EXPECT_EQ(counted.ended, 3);
  EXPECT_EQ(executor.timers_pending(), 0);
  EXPECT_LT(executor.now(), start + 10s);
}

// Returns a value although it was asked to stop, like a receive whose value is in transit.
task<int> completes_when_stopped(int value) {
  try {
    co_await sleep_for(1h);
  } catch (const gyre::operation_cancelled&) {  // too late
  }
  co_await gyre::shielded(gyre::yield());
  co_return value;
}

TEST(WhenAny, GivesTheValuesOfAllThatCompleted) {
  manual_executor executor;
  const auto ended = run_in_virtual_time(
      executor,
      when_any(completes_when_stopped(1), sleep_for(1s), sleep_for(1h), completes_when_stopped(4)));
  EXPECT_EQ(ended.index, 1);
  EXPECT_EQ(std::get<0>(ended.values), 1);
  EXPECT_TRUE(std::get<1>(ended.values).has_value());
  EXPECT_FALSE(std::get<2>(ended.values).has_value());
  EXPECT_EQ(std::get<3>(ended.values), 4);
}

TEST(WhenAny, GivesTheValuesOfAllOfARangeThatCompleted) {
  manual_executor executor;
  std::vector<task<int>> tasks;
  tasks.push_back(completes_when_stopped(0));
  tasks.push_back(after(1h, 1));
  tasks.push_back(after(1s, 2));
  tasks.push_back(completes_when_stopped(3));
  const auto ended = run_in_virtual_time(executor, when_any(std::move(tasks)));
  EXPECT_EQ(ended.index, 2);
  EXPECT_EQ(ended.values, (std::vector<std::optional<int>>{0, std::nullopt, 2, 3}));
}

TEST(WhenAny, GivesWhatHasCompletedThoughItWasStoppedAsAWhole) {
  manual_executor executor;
  inplace_stop_source source;
  auto both = gyre::spawn_future(executor, when_any(sleep_for(1h), completes_when_stopped(2)),
                                 source.get_token());
  std::vector<task<int>> tasks;
  tasks.push_back(after(1h, 0));
  tasks.push_back(completes_when_stopped(1));
  auto range = gyre::spawn_future(executor, when_any(std::move(tasks)), source.get_token());
  executor.run_all();
  source.request_stop();
  executor.run_all();
  const auto of_both = both.get();
  EXPECT_EQ(of_both.index, 1);
  EXPECT_EQ(std::get<1>(of_both.values), 2);
  const auto of_range = range.get();
  EXPECT_EQ(of_range.index, 1);
  EXPECT_EQ(of_range.values.at(1), 1);
}

TEST(WhenAny, ThrowsAnErrorThatCameBeforeTheStop) {
  manual_executor executor;
  EXPECT_THROW(run_in_virtual_time(executor, when_any(completes_when_stopped(1), fails_after(1s))),
               std::runtime_error);
}

TEST(WhenAny, WaitsForOneThatDoesNotHeedTheStop) {
  manual_executor executor;
  bool ended = false;
  const auto stubborn = [](bool& told) -> task<> {
    for (int i = 0; i < 3; ++i) {
      try {
        co_await sleep_for(1h);
      } catch (const gyre::operation_cancelled&) {  // the loop continues
      }
      co_await gyre::shielded(gyre::yield());
    }
    told = true;
  };
  EXPECT_EQ(run_in_virtual_time(executor, when_any(stubborn(ended), after(1s, 1))).index, 1);
  EXPECT_TRUE(ended);
}

TEST(WhenAny, DoesNotStartThoseAfterOneThatHasEnded) {
  living counted;
  EXPECT_EQ(sync_wait(when_any(ready(1), lives(counted, 1s))).index, 0);
  EXPECT_EQ(counted.started, 0);
}

TEST(WhenAny, ThrowsTheErrorThatComesFirst) {
  manual_executor executor;
  living counted;
  EXPECT_THROW(run_in_virtual_time(executor, when_any(fails_after(1s), lives(counted, 2s))),
               std::runtime_error);
  EXPECT_EQ(counted.ended, 1);
}

TEST(WhenAny, DropsErrorsThatComeLater) {
  manual_executor executor;
  EXPECT_EQ(run_in_virtual_time(executor, when_any(fails_after(2s), after(1s, 1))).index, 1);
}

TEST(WhenAny, IsStoppedAsAWhole) {
  manual_executor executor;
  inplace_stop_source source;
  living counted;
  auto result = gyre::spawn_future(executor, when_any(lives(counted, 1h), lives(counted, 1h)),
                                   source.get_token());
  executor.run_all();
  source.request_stop();
  executor.run_all();
  try {
    result.get();
    ADD_FAILURE() << "was not stopped";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::operation_canceled);
  }
  EXPECT_EQ(counted.ended, 2);
}

TEST(WhenAny, NestsInATimeout) {
  manual_executor executor;
  living counted;
  try {
    run_in_virtual_time(executor,
                        gyre::with_timeout(when_any(lives(counted, 1h), lives(counted, 2h)), 1s));
    ADD_FAILURE() << "did not time out";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::timed_out);
  }
  EXPECT_EQ(counted.ended, 2);
}

TEST(WhenAny, TakesARange) {
  manual_executor executor;
  std::vector<task<int>> tasks;
  for (int i = 0; i < 10; ++i) tasks.push_back(after(i == 6 ? 1s : 1h, i));
  const gyre::when_any_range_result<int> first =
      run_in_virtual_time(executor, when_any(std::move(tasks)));
  EXPECT_EQ(first.index, 6);
  EXPECT_EQ(first.values.at(6), 6);
  EXPECT_EQ(std::ranges::count_if(first.values, &std::optional<int>::has_value), 1);
  EXPECT_EQ(executor.timers_pending(), 0);
}

TEST(WhenAny, TakesAViewThatMakesAwaitables) {
  manual_executor executor;
  auto sleeps = std::views::iota(1, 5) |
                std::views::transform([](int i) { return sleep_for(std::chrono::hours(5 - i)); });
  EXPECT_EQ(run_in_virtual_time(executor, when_any(std::move(sleeps))).index, 3);
}

TEST(WhenAny, AnEmptyRangeIsAnError) {
  EXPECT_THROW(static_cast<void>(when_any(std::vector<task<>>())), std::invalid_argument);
}

TEST(WhenAny, AnEmptyTaskIsAnErrorBeforeAnythingRuns) {
  living counted;
  EXPECT_THROW(static_cast<void>(when_any(lives(counted, 1s), task<>())), std::logic_error);
  EXPECT_EQ(counted.started, 0);
}

TEST(WhenAny, GoesOnOnItsOwnExecutor) {
  thread_executor there;
  thread_executor home;
  sync_wait(gyre::on(home, [](thread_executor& other, thread_executor& own) -> task<> {
    for (int i = 0; i < 200; ++i) {
      co_await when_any(gyre::resume_on(other), gyre::schedule(own), gyre::yield());
      EXPECT_TRUE(own.running_here());
    }
  }(there, home)));
}

TEST(WhenAny, ChildrenOnSeveralThreadsEndAtOnce) {
  thread_executor one;
  thread_executor other;
  const auto hop = [](gyre::executor& to, int value) -> task<int> {
    co_await gyre::resume_on(to);
    co_return value;
  };
  for (int round = 0; round < 500; ++round) {
    inplace_stop_source source;
    std::jthread stopper([&] { source.request_stop(); });
    const auto first =
        sync_wait(when_any(hop(one, 0), hop(other, 1), hop(one, 2)), source.get_token());
    const std::array values{std::get<0>(first.values), std::get<1>(first.values),
                            std::get<2>(first.values)};
    EXPECT_TRUE(values.at(first.index).has_value());
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(values.at(static_cast<std::size_t>(i)).value_or(i), i);
    }
  }
}

task<long> race_often(long count) {
  long sum = 0;
  for (long i = 0; i < count; ++i) {
    const auto first = co_await when_any(ready(1), ready(2));
    sum += std::get<0>(first.values).value_or(0);
  }
  co_return sum;
}

TEST(WhenAny, ManyInARowRunInConstantStack) { EXPECT_EQ(sync_wait(race_often(100'000)), 100'000); }

task<int> depth_of_races(int left) {
  if (left == 0) co_return 0;
  auto race = when_any(depth_of_races(left - 1));
  const auto below = co_await std::move(race);
  co_return std::get<0>(below.values).value_or(0) + 1;
}

TEST(WhenAny, NestsDeeperThanTheStackHasRoomFor) {
  EXPECT_EQ(sync_wait(depth_of_races(30'000)), 30'000);
}

TEST(WhenAny, MayBeDroppedWhileItsChildrenWait) {
  manual_executor executor;
  living counted;
  gyre::task_context context;
  context.where = &executor;
  {
    auto race = when_any(lives(counted, 1s), lives(counted, 2s));
    struct starter : gyre::operation {
      starter(decltype(race)& work, gyre::task_context& in)
          : operation([](operation& self) {
              auto& op = static_cast<starter&>(self);
              gyre::detail::task_access::state(op.started).start(op.context);
            }),
            started(work),
            context(in) {}
      decltype(race)& started;
      gyre::task_context& context;
    } start(race, context);
    executor.post(start);
    executor.run_all();
    EXPECT_EQ(executor.timers_pending(), 2);
  }
  EXPECT_EQ(counted.ended, 2);
  EXPECT_EQ(executor.timers_pending(), 0);
}

}  // namespace
}  // namespace when_any_test

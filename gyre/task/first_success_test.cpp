// SPDX-License-Identifier: Apache-2.0
// Tests of first_success, in virtual time and on threads.
#include <gyre/task/first_success.hpp>

#include <gyre/task/schedule.hpp>
#include <gyre/task/shielded.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>
#include <tests/support/thread_executor.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace first_success_test {
namespace {

using namespace std::chrono_literals;
using gyre::first_success;
using gyre::inplace_stop_source;
using gyre::sleep_for;
using gyre::sync_wait;
using gyre::task;
using gyre::test::thread_executor;
using gyre::testing::manual_executor;
using gyre::testing::run_in_virtual_time;
using std::chrono::nanoseconds;

// Counts the coroutines that started and those that ended, by a return or an exception.
struct living {
  int started = 0;
  int ended = 0;
};
class counted {
 public:
  explicit counted(living& in) : in_(in) { ++in_.started; }
  counted(const counted&) = delete;
  counted& operator=(const counted&) = delete;
  ~counted() { ++in_.ended; }

 private:
  living& in_;
};

template <class T>
task<T> after(nanoseconds delay, T value) {
  co_await sleep_for(delay);
  co_return value;
}
task<int> fails_after(nanoseconds delay, std::string message) {
  co_await sleep_for(delay);
  throw std::runtime_error(message);
}
task<int> fails_at_once(living& in) {
  const counted here(in);
  throw std::runtime_error("at once");
  co_return 0;
}
task<int> lives(living& in, nanoseconds delay, int value) {
  const counted here(in);
  co_await sleep_for(delay);
  co_return value;
}
// Returns a value although it was asked to stop.
task<int> completes_when_stopped(int value) {
  try {
    co_await sleep_for(1h);
  } catch (const gyre::operation_cancelled&) {  // too late
  }
  co_await gyre::shielded(gyre::yield());
  co_return value;
}

template <class Work>
std::string error_of(manual_executor& executor, Work work) {
  try {
    static_cast<void>(run_in_virtual_time(executor, std::move(work)));
  } catch (const std::exception& error) {
    return error.what();
  }
  return "none";
}

TEST(FirstSuccess, GivesTheFirstResult) {
  manual_executor executor;
  EXPECT_EQ(run_in_virtual_time(executor, first_success(after(3s, 1), after(1s, 2), after(2s, 3))),
            2);
}

TEST(FirstSuccess, GoesOnAfterFailures) {
  manual_executor executor;
  EXPECT_EQ(run_in_virtual_time(
                executor, first_success(fails_after(1s, "a"), after(3s, 2), fails_after(2s, "b"))),
            2);
}

TEST(FirstSuccess, GivesMoveOnlyResultsReferencesAndNothing) {
  EXPECT_EQ(**sync_wait(first_success([]() -> task<std::unique_ptr<std::unique_ptr<int>>> {
    co_return std::make_unique<std::unique_ptr<int>>(std::make_unique<int>(4));
  }())),
            4);
  int value = 0;
  int& given = sync_wait(first_success([](int& to) -> task<int&> { co_return to; }(value)));
  EXPECT_EQ(&given, &value);
  manual_executor executor;
  run_in_virtual_time(executor, first_success(sleep_for(1s), sleep_for(2s)));
}

TEST(FirstSuccess, StopsAndAwaitsTheOthers) {
  manual_executor executor;
  living counted;
  const auto start = executor.now();
  EXPECT_EQ(
      run_in_virtual_time(executor, first_success(lives(counted, 100h, 1), lives(counted, 1s, 2),
                                                  lives(counted, 100h, 3))),
      2);
  EXPECT_EQ(counted.started, 3);
  EXPECT_EQ(counted.ended, 3);
  EXPECT_EQ(executor.timers_pending(), 0);
  EXPECT_LT(executor.now(), start + 10s);
}

TEST(FirstSuccess, DoesNotStartThoseAfterOneThatHasSucceeded) {
  living before;
  living after_it;
  const auto ready = []() -> task<int> { co_return 1; };
  EXPECT_EQ(sync_wait(first_success(fails_at_once(before), ready(), lives(after_it, 1s, 2))), 1);
  EXPECT_EQ(before.ended, 1);
  EXPECT_EQ(after_it.started, 0);
}

TEST(FirstSuccess, ResultsThatComeLaterAreDropped) {
  manual_executor executor;
  EXPECT_EQ(run_in_virtual_time(executor, first_success(completes_when_stopped(1), after(1s, 2))),
            2);
}

TEST(FirstSuccess, ThrowsTheLastErrorIfAllFail) {
  manual_executor executor;
  living counted;
  EXPECT_EQ(error_of(executor, first_success(fails_after(2s, "last"), fails_after(1s, "first"),
                                             fails_at_once(counted))),
            "last");
}

TEST(FirstSuccess, IsStoppedAsAWhole) {
  manual_executor executor;
  inplace_stop_source source;
  living counted;
  auto result =
      gyre::spawn_future(executor, first_success(fails_after(1s, "before"), lives(counted, 1h, 1)),
                         source.get_token());
  executor.run_all();
  executor.advance(2s);
  source.request_stop();
  executor.run_all();
  try {
    result.get();
    ADD_FAILURE() << "was not stopped";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::operation_canceled);
  }
  EXPECT_EQ(counted.ended, 1);
}

TEST(FirstSuccess, ThrowsTheStopAlsoIfAnotherFailsBecauseOfIt) {
  manual_executor executor;
  inplace_stop_source source;
  const auto fails_when_stopped = []() -> task<int> {
    try {
      co_await sleep_for(1h);
    } catch (const gyre::operation_cancelled&) {  // the coroutine continues
    }
    co_await gyre::shielded(gyre::yield());
    throw std::runtime_error("because of the stop");
  };
  bool stopped = false;
  const auto notes = [&](task<int> work) -> task<> {
    try {
      static_cast<void>(co_await std::move(work));
    } catch (const gyre::operation_cancelled&) {
      stopped = true;
    }
  };
  gyre::spawn(executor, notes(first_success(after(1h, 1), fails_when_stopped())),
              {.stop = source.get_token()});
  executor.run_all();
  source.request_stop();
  executor.run_all();
  EXPECT_TRUE(stopped);
}

TEST(FirstSuccess, GivesAResultInSpiteOfTheStop) {
  manual_executor executor;
  inplace_stop_source source;
  auto result = gyre::spawn_future(executor, first_success(after(1h, 1), completes_when_stopped(2)),
                                   source.get_token());
  executor.run_all();
  source.request_stop();
  executor.run_all();
  EXPECT_EQ(result.get(), 2);
}

TEST(FirstSuccess, NestsInATimeout) {
  manual_executor executor;
  living counted;
  try {
    run_in_virtual_time(executor, gyre::with_timeout(first_success(lives(counted, 1h, 1)), 1s));
    ADD_FAILURE() << "did not time out";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::timed_out);
  }
  EXPECT_EQ(counted.ended, 1);
}

TEST(FirstSuccess, TakesARange) {
  manual_executor executor;
  std::vector<task<int>> tasks;
  for (int i = 0; i < 10; ++i) tasks.push_back(after(std::chrono::hours(10 - i), i));
  tasks.push_back(fails_after(1s, "fails"));
  EXPECT_EQ(run_in_virtual_time(executor, first_success(std::move(tasks))), 9);
  EXPECT_EQ(executor.timers_pending(), 0);
}

TEST(FirstSuccess, AnEmptyRangeIsAnError) {
  EXPECT_THROW(static_cast<void>(first_success(std::vector<task<>>())), std::invalid_argument);
}

TEST(FirstSuccess, AnEmptyTaskIsAnErrorBeforeAnythingRuns) {
  living counted;
  EXPECT_THROW(static_cast<void>(first_success(lives(counted, 1s, 1), task<int>())),
               std::logic_error);
  EXPECT_EQ(counted.started, 0);
}

TEST(FirstSuccess, ChildrenOnSeveralThreadsEndAtOnce) {
  thread_executor one;
  thread_executor other;
  const auto hop = [](gyre::executor& to, int value) -> task<int> {
    co_await gyre::resume_on(to);
    if (value == 0) throw std::runtime_error("zero");
    co_return value;
  };
  for (int round = 0; round < 500; ++round) {
    inplace_stop_source source;
    std::jthread stopper([&] { source.request_stop(); });
    const int first =
        sync_wait(first_success(hop(one, 0), hop(other, 1), hop(one, 2)), source.get_token());
    EXPECT_TRUE(first == 1 || first == 2);
  }
}

TEST(FirstSuccess, MayBeDroppedWhileItsChildrenWait) {
  manual_executor executor;
  living counted;
  gyre::task_context context;
  context.where = &executor;
  {
    auto race = first_success(lives(counted, 1s, 1), lives(counted, 2s, 2));
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
}  // namespace first_success_test

// SPDX-License-Identifier: Apache-2.0
// Tests of sleeping, in virtual time. The tests with a loop are in exec.
#include <gyre/task/sleep.hpp>

#include <gyre/task/schedule.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/testing/manual_executor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace sleep_test {
namespace {

using namespace std::chrono_literals;
using gyre::inplace_stop_source;
using gyre::sleep_for;
using gyre::sleep_until;
using gyre::steady_time;
using gyre::task;
using std::chrono::nanoseconds;
using testing::ElementsAre;

// A plain number does not convert: intended milliseconds must not become nanoseconds.
template <class Delay>
concept is_slept_for = requires(Delay delay) { sleep_for(delay); };
static_assert(is_slept_for<nanoseconds> && is_slept_for<std::chrono::hours>);
static_assert(!is_slept_for<int> && !is_slept_for<long>);

class Sleep : public testing::Test {
 public:
  // Runs `work` to its first wait.
  template <class Work>
  void start(Work work) {
    gyre::spawn(executor_, std::move(work), {.stop = source_.get_token()});
    executor_.run_all();
  }
  task<> note_error_of(nanoseconds delay) {
    try {
      co_await sleep_for(delay);
      ended_ = true;
    } catch (const gyre::operation_cancelled&) {
      error_ = std::make_error_code(std::errc::operation_canceled);
    }
    ended_at_ = executor_.now();
  }

  inplace_stop_source source_;
  gyre::testing::manual_executor executor_;
  const steady_time start_ = executor_.now();
  bool ended_ = false;
  std::error_code error_;
  steady_time ended_at_{};
};

TEST_F(Sleep, EndsWhenItsTimeHasPassedAndNotBefore) {
  start(note_error_of(1s));
  executor_.advance(1s - 2us);
  EXPECT_FALSE(ended_);
  executor_.advance(2us);
  EXPECT_TRUE(ended_);
  EXPECT_GE(ended_at_, start_ + 1s);
}

TEST_F(Sleep, UntilAPointInTimeEndsThen) {
  start([](steady_time deadline, bool& ended) -> task<> {
    co_await sleep_until(deadline);
    ended = true;
  }(start_ + 5min, ended_));
  executor_.advance(5min - 2us);
  EXPECT_FALSE(ended_);
  executor_.advance(2us);
  EXPECT_TRUE(ended_);
}

TEST_F(Sleep, ZeroAndNegativeDurationsEndInTheNextTurn) {
  for (const nanoseconds none : {0ns, -1ns, nanoseconds::min()}) {
    ended_ = false;
    start(note_error_of(none));
    EXPECT_FALSE(ended_);
    executor_.advance(0ns);
    EXPECT_TRUE(ended_);
  }
}

TEST_F(Sleep, TheLongestDurationDoesNotWrapAround) {
  start(note_error_of(nanoseconds::max()));
  executor_.advance(10'000h);
  EXPECT_FALSE(ended_);
  source_.request_stop();
  executor_.run_all();
  EXPECT_EQ(error_, std::errc::operation_canceled);
}

TEST_F(Sleep, SleepersWakeInTheOrderOfTheirDeadlines) {
  std::vector<int> order;
  const auto sleeper = [](int number, nanoseconds delay, std::vector<int>& woken) -> task<> {
    co_await sleep_for(delay);
    woken.push_back(number);
  };
  start(sleeper(1, 3s, order));
  start(sleeper(2, 1s, order));
  start(sleeper(3, 2s, order));
  executor_.advance(1min);
  EXPECT_THAT(order, ElementsAre(2, 3, 1));
}

TEST_F(Sleep, EndsAtOnceWhenAskedToStop) {
  start(note_error_of(1h));
  source_.request_stop();
  EXPECT_EQ(error_, std::error_code()) << "goes on in the executor, not in request_stop()";
  executor_.run_all();
  EXPECT_EQ(error_, std::errc::operation_canceled);
  EXPECT_EQ(ended_at_, start_);
  EXPECT_EQ(executor_.timers_pending(), 0);
}

TEST_F(Sleep, StoppedOnItsExecutorLeavesTheTimersWithinTheCall) {
  start(note_error_of(1h));
  struct stop_all : gyre::operation {
    explicit stop_all(Sleep& of)
        : operation([](operation& self) {
            Sleep& fixture = static_cast<stop_all&>(self).test;
            fixture.source_.request_stop();
            EXPECT_EQ(fixture.executor_.timers_pending(), 0);
            EXPECT_EQ(fixture.error_, std::error_code()) << "goes on after request_stop()";
          }),
          test(of) {}
    Sleep& test;
  } stop(*this);
  executor_.post(stop);
  executor_.run_all();
  EXPECT_EQ(error_, std::errc::operation_canceled);
}

TEST_F(Sleep, DoesNotBeginAfterTheStop) {
  source_.request_stop();
  start(note_error_of(1h));
  EXPECT_EQ(error_, std::errc::operation_canceled);
}

TEST_F(Sleep, StopsFromAnotherThread) {
  start(note_error_of(1h));
  std::jthread([&] { source_.request_stop(); }).join();
  executor_.run_all();
  EXPECT_EQ(error_, std::errc::operation_canceled);
}

TEST_F(Sleep, EndsOnceWhenTimeAndStopMeet) {
  start(note_error_of(1s));
  source_.request_stop();
  executor_.advance(1h);  // runs the cancellation before the timer
  EXPECT_EQ(error_, std::errc::operation_canceled);
  EXPECT_FALSE(ended_);
}

TEST_F(Sleep, StopAfterTheEndDoesNothing) {
  start(note_error_of(1s));
  executor_.advance(2s);
  source_.request_stop();
  EXPECT_EQ(executor_.pending(), 0);
  EXPECT_TRUE(ended_);
}

TEST_F(Sleep, RacesItsTimeWithTheStop) {
  for (int round = 0; round < 500; ++round) {
    inplace_stop_source source;
    ended_ = false;
    error_ = {};
    gyre::spawn(executor_, note_error_of(1us), {.stop = source.get_token()});
    executor_.run_all();
    std::jthread stopper([&] { source.request_stop(); });
    executor_.advance(10us);
    stopper.join();
    executor_.run_all();
    EXPECT_NE(ended_, error_ == std::errc::operation_canceled);
  }
}

TEST_F(Sleep, OnExecutorsWithoutTimersIsNotSupported) {
  std::error_code error;
  gyre::sync_wait([](std::error_code& told) -> task<> {
    try {
      co_await sleep_for(1ns);
    } catch (const std::system_error& failure) {
      told = failure.code();
      EXPECT_TRUE(std::string_view(failure.what()).contains("use sync_wait(loop, ...)"))
          << failure.what();
    }
  }(error));
  EXPECT_EQ(error, std::errc::operation_not_supported);
}

TEST_F(Sleep, StartedElsewhereGoesToItsExecutorFirst) {
  // Simulates a foreign callback that resumes the coroutine on another thread.
  struct resumed_by_stranger {
    static bool await_ready() { return false; }
    static void await_suspend(std::coroutine_handle<> h) {
      std::jthread([h] { gyre::detail::resume(h); }).join();
    }
    static void await_resume() {}
  };
  std::thread::id woken_on;
  start([](std::thread::id& on) -> task<> {
    co_await resumed_by_stranger{};
    co_await sleep_for(1s);
    on = std::this_thread::get_id();
  }(woken_on));
  executor_.advance(2s);
  EXPECT_EQ(woken_on, std::this_thread::get_id());
}

TEST_F(Sleep, MayBeDroppedWhileItWaits) {
  struct sleeper {
    gyre::inplace_stop_source stop;
    gyre::task_context context;
  } outer;
  outer.context.where = &executor_;
  outer.context.stop = outer.stop.get_token();
  struct on_executor : gyre::operation {
    on_executor(task<>& starts, gyre::task_context& in)
        : operation([](operation& self) {
            auto& op = static_cast<on_executor&>(self);
            gyre::detail::task_access::state(op.work).start(op.context);
          }),
          work(starts),
          context(in) {}
    task<>& work;
    gyre::task_context& context;
  };
  {
    task<> work = [](bool& ended) -> task<> {
      co_await sleep_for(1s);
      ended = true;
    }(ended_);
    on_executor starter(work, outer.context);
    executor_.post(starter);
    executor_.run_all();
    EXPECT_EQ(executor_.timers_pending(), 1);
  }
  EXPECT_EQ(executor_.timers_pending(), 0);
  executor_.advance(2s);
  outer.stop.request_stop();
  EXPECT_FALSE(ended_);
}

}  // namespace
}  // namespace sleep_test

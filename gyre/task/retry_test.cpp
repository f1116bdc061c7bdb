// SPDX-License-Identifier: Apache-2.0
// Tests of retry, in virtual time.
#include <gyre/task/retry.hpp>

#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace retry_test {
namespace {

using namespace std::chrono_literals;
using gyre::inplace_stop_source;
using gyre::is_retryable;
using gyre::retry;
using gyre::sleep_for;
using gyre::task;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using testing::ElementsAre;

class Retry : public testing::Test {
 public:
  template <gyre::awaitable Awaitable>
  gyre::task_result_t<Awaitable> run(Awaitable work) {
    return gyre::testing::run_in_virtual_time(executor_, std::move(work));
  }
  // Succeeds after so many failures, each after so much time.
  auto fails(std::size_t times, nanoseconds duration = 0ns) {
    return [this, times, duration](std::size_t number) -> task<std::size_t> {
      return attempt(number, number >= times, duration);
    };
  }
  task<std::size_t> attempt(std::size_t number, bool succeeds, nanoseconds duration) {
    started_.push_back(now());
    if (duration > 0ns) co_await sleep_for(duration);
    if (!succeeds) throw std::runtime_error("attempt " + std::to_string(number));
    co_return number;
  }
  milliseconds now() const {
    return std::chrono::duration_cast<milliseconds>(executor_.now() - start_);
  }

  gyre::testing::manual_executor executor_;
  const gyre::steady_time start_ = executor_.now();
  std::vector<milliseconds> started_;
};

TEST_F(Retry, AwaitsOneAttemptIfThatSucceeds) {
  EXPECT_EQ(run(retry(fails(0))), 0);
  EXPECT_THAT(started_, ElementsAre(0ms));
}

TEST_F(Retry, AwaitsAnotherAttemptAfterEachFailure) {
  EXPECT_EQ(run(retry(fails(3), {.delay = {.initial = 10ms}, .jitter = false})), 3);
  EXPECT_THAT(started_, ElementsAre(0ms, 10ms, 30ms, 70ms));
}

TEST_F(Retry, LimitsTheDelays) {
  run(retry(fails(4), {.delay = {.initial = 10ms, .longest = 15ms}, .jitter = false}));
  EXPECT_THAT(started_, ElementsAre(0ms, 10ms, 25ms, 40ms, 55ms));
}

TEST_F(Retry, ThrowsTheLastErrorAfterSoManyAttempts) {
  try {
    run(retry(fails(100), {.attempts = 3}));
    ADD_FAILURE() << "succeeded";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string_view(error.what()), "attempt 2");
  }
  EXPECT_EQ(started_.size(), 3);
}

TEST_F(Retry, DelaysHaveFullJitter) {
  const gyre::exponential_backoff delay{.initial = 100ms, .longest = 1s};
  run(retry(fails(4), {.delay = delay, .seed = 42}));
  gyre::detail::splitmix64 random(42);
  nanoseconds expected{0};
  for (std::size_t i = 1; i < started_.size(); ++i) {
    expected += delay.jittered_delay(i, random);
    EXPECT_NEAR(static_cast<double>(started_.at(i).count()),
                static_cast<double>(std::chrono::duration_cast<milliseconds>(expected).count()), 1);
  }
}

TEST_F(Retry, WithoutASeedTheDelaysDiffer) {
  std::vector<nanoseconds> ends;
  for (int i = 0; i < 2; ++i) {
    const gyre::steady_time begin = executor_.now();
    run(retry(fails(4), {.delay = {.initial = 1h, .longest = 24h}}));
    ends.push_back(executor_.now() - begin);
  }
  EXPECT_NE(ends.at(0), ends.at(1));
}

TEST_F(Retry, TheTimeLimitEndsItBeforeADelayThatWouldExceedIt) {
  const gyre::retry_options options{.attempts = 100,
                                    .delay = {.initial = 10ms, .longest = 10ms},
                                    .jitter = false,
                                    .time_limit = 35ms};
  EXPECT_THROW(run(retry(fails(100), options)), std::runtime_error);
  EXPECT_THAT(started_, ElementsAre(0ms, 10ms, 20ms, 30ms));
  EXPECT_LT(now(), 31ms + 31ms) << "virtual time passes in growing steps";
}

TEST_F(Retry, TheTimeLimitDoesNotStopAnAttempt) {
  EXPECT_EQ(run(retry(fails(0, 1h), {.time_limit = 1s})), 0);
  started_.clear();
  EXPECT_THROW(run(retry(fails(100, 1h), {.time_limit = 1s})), std::runtime_error);
  EXPECT_EQ(started_.size(), 1);
}

TEST_F(Retry, WithTimeoutLimitsAnAttempt) {
  const auto times_out = [this](std::size_t number) {
    return gyre::with_timeout(attempt(number, true, number == 0 ? 1h : 1ms), 1s);
  };
  EXPECT_EQ(run(retry(times_out, {.delay = {.initial = 1s}, .jitter = false})), 1);
  EXPECT_THAT(started_, ElementsAre(0ms, 2000ms));
}

template <class Error>
std::exception_ptr error_of(Error error) {
  return std::make_exception_ptr(std::move(error));
}

TEST_F(Retry, RetriesFailuresAndNoBugs) {
  EXPECT_TRUE(is_retryable(error_of(std::runtime_error("failure"))));
  EXPECT_TRUE(
      is_retryable(error_of(std::system_error(std::make_error_code(std::errc::timed_out)))));
  EXPECT_FALSE(is_retryable(
      error_of(std::system_error(std::make_error_code(std::errc::operation_canceled)))));
  EXPECT_FALSE(
      is_retryable(error_of(std::system_error(std::make_error_code(std::errc::invalid_argument)))));
  EXPECT_FALSE(is_retryable(error_of(gyre::operation_cancelled())));
  EXPECT_FALSE(is_retryable(error_of(std::logic_error("bug"))));
  EXPECT_FALSE(is_retryable(error_of(std::bad_alloc())));
  EXPECT_FALSE(is_retryable(error_of(42)));
  EXPECT_FALSE(is_retryable(nullptr));
}

TEST_F(Retry, ABugEndsItAtOnce) {
  int attempts = 0;
  const auto has_bug = [&]() -> task<> {
    ++attempts;
    throw std::logic_error("bug");
    co_return;
  };
  EXPECT_THROW(run(retry(has_bug)), std::logic_error);
  EXPECT_EQ(attempts, 1);
}

TEST_F(Retry, AnotherConditionMayBeGiven) {
  int attempts = 0;
  const auto gives_numbers = [&]() -> task<int> {
    throw ++attempts;
    co_return 0;
  };
  const auto is_small = [](const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (int number) {
      return number < 3;
    }
  };
  EXPECT_THROW(run(retry(gives_numbers, {}, is_small)), int);
  EXPECT_EQ(attempts, 3);
}

TEST_F(Retry, AnExceptionOfTheConditionEndsIt) {
  const auto throws = [](const std::exception_ptr&) -> bool { throw std::logic_error("asked"); };
  EXPECT_THROW(run(retry(fails(1), {}, throws)), std::logic_error);
  EXPECT_EQ(started_.size(), 1);
}

TEST_F(Retry, AnExceptionOfTheFunctionIsTheFailureOfItsAttempt) {
  const auto throws_first = [this](std::size_t number) -> task<std::size_t> {
    if (number == 0) throw std::runtime_error("no attempt");
    return attempt(number, true, 0ns);
  };
  EXPECT_EQ(run(retry(throws_first)), 1);
}

TEST_F(Retry, GivesMoveOnlyResultsAndNothingAndTakesOtherAwaitables) {
  const auto makes = []() -> task<std::unique_ptr<int>> { co_return std::make_unique<int>(3); };
  EXPECT_EQ(*run(retry(makes)), 3);
  run(retry([] { return sleep_for(1s); }));
  int value = 0;
  const auto refers = [&]() -> task<int&> { co_return value; };
  EXPECT_EQ(&run(retry(refers)), &value);
}

// Notes that it was stopped.
task<> notes_stop(task<std::size_t> work, bool& stopped) {
  try {
    static_cast<void>(co_await std::move(work));
  } catch (const gyre::operation_cancelled&) {
    stopped = true;
  }
}

TEST_F(Retry, AStopEndsTheDelayAtOnce) {
  inplace_stop_source source;
  bool stopped = false;
  gyre::spawn(
      executor_,
      notes_stop(retry(fails(9), {.delay = {.initial = 1h, .longest = 1h}, .jitter = false}),
                 stopped),
      {.stop = source.get_token()});
  executor_.run_all();
  source.request_stop();
  executor_.run_all();
  EXPECT_TRUE(stopped);
  EXPECT_EQ(started_.size(), 1);
  EXPECT_EQ(executor_.timers_pending(), 0);
}

TEST_F(Retry, AStopEndsTheAttemptAndIsNoFailure) {
  inplace_stop_source source;
  bool stopped = false;
  bool asked = false;
  const auto always = [&](const std::exception_ptr&) { return asked = true; };
  gyre::spawn(executor_, notes_stop(retry(fails(9, 1h), {}, always), stopped),
              {.stop = source.get_token()});
  executor_.run_all();
  source.request_stop();
  executor_.run_all();
  EXPECT_TRUE(stopped);
  EXPECT_FALSE(asked);
  EXPECT_EQ(started_.size(), 1);
}

TEST_F(Retry, DoesNotRetryAFailureThatComesWithTheStop) {
  inplace_stop_source source;
  bool stopped = false;
  const auto fails_when_stopped = [this]() -> task<std::size_t> {
    started_.push_back(now());
    try {
      co_await sleep_for(1h);
    } catch (const gyre::operation_cancelled&) {  // goes on
    }
    throw std::runtime_error("because of the stop");
  };
  gyre::spawn(executor_,
              notes_stop(retry(fails_when_stopped, {.delay = {.initial = 0ms}}), stopped),
              {.stop = source.get_token()});
  executor_.run_all();
  source.request_stop();
  executor_.run_all();
  EXPECT_TRUE(stopped);
  EXPECT_EQ(started_.size(), 1);
}

TEST_F(Retry, OptionsThatMakeNoSenseAreAnError) {
  const auto none = [] { return task<>(); };
  EXPECT_THROW(static_cast<void>(retry(none, {.attempts = 0})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(retry(none, {.delay = {.initial = -1ns}})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(retry(none, {.delay = {.longest = -1ns}})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(retry(none, {.time_limit = -1ns})), std::invalid_argument);
}

TEST_F(Retry, OnExecutorsWithoutTimersIsNotSupported) {
  try {
    gyre::sync_wait(retry(fails(0)));
    ADD_FAILURE() << "ran";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::operation_not_supported);
    EXPECT_TRUE(std::string_view(error.what()).contains("gyre::retry")) << error.what();
  }
  EXPECT_TRUE(started_.empty());
}

}  // namespace
}  // namespace retry_test

// SPDX-License-Identifier: Apache-2.0
// Tests of timeouts, in virtual time.
#include <gyre/task/with_timeout.hpp>

#include <gyre/base/timer_operation.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/sync/oneshot.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/join_handle.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>
#include <tests/support/thread_executor.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <expected>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace with_timeout_test {
namespace {

using namespace std::chrono_literals;
using gyre::inplace_stop_source;
using gyre::sleep_for;
using gyre::task;
using gyre::with_timeout;
using gyre::testing::manual_executor;
using std::chrono::nanoseconds;

// A plain number does not convert: intended milliseconds must not become nanoseconds.
template <class Limit>
concept limits_a_task =
    requires(task<> work, Limit limit) { with_timeout(std::move(work), limit); };
static_assert(limits_a_task<nanoseconds> && limits_a_task<std::chrono::hours>);
static_assert(!limits_a_task<int> && !limits_a_task<long>);

// Single operations need no coroutine of their own.
static_assert(gyre::detail::single_operation<decltype(sleep_for(1s))>);
static_assert(!gyre::detail::single_operation<decltype(gyre::yield())>);
static_assert(!gyre::detail::single_operation<task<>>);

class WithTimeout : public testing::Test {
 protected:
  template <gyre::awaitable Awaitable>
  gyre::task_result_t<Awaitable> run(Awaitable work) {
    return gyre::testing::run_in_virtual_time(executor_, std::move(work));
  }
  template <gyre::awaitable Awaitable>
  std::error_code error_of(Awaitable work) {
    try {
      static_cast<void>(run(std::move(work)));
    } catch (const std::system_error& error) {
      return error.code();
    }
    return {};
  }
  nanoseconds elapsed() const { return executor_.now() - start_; }

  manual_executor executor_;
  const gyre::steady_time start_ = executor_.now();
};

task<std::unique_ptr<int>> after(nanoseconds delay, int value) {
  co_await sleep_for(delay);
  co_return std::make_unique<int>(value);
}
// Ignores a stop request.
task<int> stubborn(nanoseconds delay, int value) {
  try {
    co_await sleep_for(delay);
  } catch (const gyre::operation_cancelled&) {
    co_return value;
  }
  co_return -value;
}

TEST_F(WithTimeout, GivesTheValueThatComesInTime) {
  EXPECT_EQ(*run(with_timeout(after(1s, 5), 2s)), 5);
  EXPECT_EQ(executor_.timers_pending(), 0);
  EXPECT_EQ(executor_.pending(), 0);
}

TEST_F(WithTimeout, ThrowsTimedOutWhenTheTimeIsOver) {
  EXPECT_EQ(error_of(with_timeout(after(1h, 5), 2s)), std::errc::timed_out);
  EXPECT_EQ(executor_.timers_pending(), 0);
}

TEST_F(WithTimeout, ItsErrorNamesTheTimeLimit) {
  const auto message_of = [&](auto work) -> std::string {
    try {
      static_cast<void>(run(std::move(work)));
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), gyre::time_limit_errc::expired);
      EXPECT_EQ(error.code(), std::errc::timed_out);
      return error.what();
    }
    return {};
  };
  EXPECT_EQ(message_of(with_timeout(after(1h, 5), 2s)),
            "gyre::with_timeout of 2 s: the time limit expired");
  EXPECT_EQ(message_of(with_timeout(sleep_for(1h), 1500ms)),
            "gyre::with_timeout of 1.5 s: the time limit expired");
  EXPECT_EQ(message_of(with_timeout(sleep_for(1h), 20ms + 30us)),
            "gyre::with_timeout of 20.03 ms: the time limit expired");
  EXPECT_EQ(message_of(with_timeout(sleep_for(1h), 7ns)),
            "gyre::with_timeout of 7 ns: the time limit expired");
  EXPECT_EQ(message_of(with_timeout(sleep_for(1h), -1s)),
            "gyre::with_timeout of 0 s: the time limit expired");
}

TEST_F(WithTimeout, ItsErrorAsAValueNamesTheTimeLimit) {
  const auto task_error = run(gyre::as_expected(with_timeout(after(1h, 5), 2s)));
  ASSERT_FALSE(task_error.has_value());
  EXPECT_EQ(task_error.error(), std::errc::timed_out);
  EXPECT_EQ(task_error.error().message(), "the time limit expired");
  const auto operation_error = run(gyre::as_expected(with_timeout(sleep_for(1h), 2s)));
  ASSERT_FALSE(operation_error.has_value());
  EXPECT_EQ(operation_error.error(), gyre::time_limit_errc::expired);
  EXPECT_EQ(operation_error.error().message(), "the time limit expired");
  EXPECT_STREQ(operation_error.error().category().name(), "gyre.time_limit");
}

TEST_F(WithTimeout, AnInnerLimitKeepsItsMessage) {
  const auto inner = []() -> task<> { co_await with_timeout(sleep_for(1h), 1s); };
  try {
    run(with_timeout(inner(), 2s));
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_STREQ(error.what(), "gyre::with_timeout of 1 s: the time limit expired");
  }
}

// Runs `taking` with a limit that expires when other work has ended, stopped, and the coroutine of
// `taking` is about to take that.
template <class Taking, class Stop>
std::error_code error_of_taken(manual_executor& executor, Taking taking, Stop stop) {
  auto taken = gyre::spawn_future(executor, with_timeout(std::move(taking), 1s));
  executor.run_all();
  stop();
  EXPECT_EQ(executor.pending(), 1U) << "the taker";
  EXPECT_TRUE(executor.expire_next());
  executor.run_all();
  try {
    static_cast<void>(taken.get());
  } catch (const std::system_error& error) {
    return error.code();
  }
  return {};
}

TEST_F(WithTimeout, PassesOnTheErrorOfStoppedWorkWhoseEndWasTaken) {
  manual_executor there;
  auto handle = gyre::spawn_joinable(there, sleep_for(1h));
  there.run_all();
  const auto stop = [&] {
    handle.request_stop();
    there.run_all();
  };
  EXPECT_EQ(error_of_taken(executor_, handle.join(), stop), std::errc::operation_canceled);

  gyre::oneshot<int> answer = gyre::make_oneshot<int>();
  EXPECT_EQ(error_of_taken(executor_, answer.receiver.receive(),
                           [&] {
                             answer.sender.send_error(std::make_exception_ptr(std::system_error(
                                 std::make_error_code(std::errc::operation_canceled))));
                           }),
            std::errc::operation_canceled);

  gyre::thread_pool pool({.workers = 1});
  pool.pause();
  EXPECT_EQ(error_of_taken(executor_, pool.submit([] {}), [&] { pool.purge(); }),
            std::errc::operation_canceled);
}

TEST_F(WithTimeout, EndsWhenTheTimeIsOverNotLater) {
  std::future<std::unique_ptr<int>> result =
      gyre::spawn_future(executor_, with_timeout(after(1h, 5), 2s));
  executor_.advance(2s - 2us);
  EXPECT_NE(result.wait_for(0s), std::future_status::ready);
  executor_.advance(4us);
  EXPECT_EQ(result.wait_for(0s), std::future_status::ready);
}

TEST_F(WithTimeout, TakesLeavesAndTasksOfNothing) {
  run([]() -> task<> {
    co_await with_timeout(sleep_for(1s), 2s);
    co_await with_timeout(gyre::yield(), 2s);
  }());
  EXPECT_EQ(error_of(with_timeout(sleep_for(3s), 2s)), std::errc::timed_out);
}

TEST_F(WithTimeout, GivesReferences) {
  int value = 0;
  EXPECT_EQ(&run(with_timeout([](int& referred) -> task<int&> { co_return referred; }(value), 1s)),
            &value);
}

TEST_F(WithTimeout, GivesAValueThatComesInSpiteOfIt) {
  EXPECT_EQ(run(with_timeout(stubborn(1h, 7), 2s)), 7);
}

TEST_F(WithTimeout, ThrowsOtherErrorsThatComeInSpiteOfIt) {
  const auto fails_when_stopped = []() -> task<> {
    try {
      co_await sleep_for(1h);
    } catch (const gyre::operation_cancelled&) {
      throw std::runtime_error("could not clean up");
    }
  };
  EXPECT_THROW(run(with_timeout(fails_when_stopped(), 2s)), std::runtime_error);
}

TEST_F(WithTimeout, ZeroDurationLetsATaskThatNeverWaitsSucceed) {
  EXPECT_EQ(run(with_timeout([]() -> task<int> { co_return 1; }(), 0ns)), 1);
  EXPECT_EQ(error_of(with_timeout(sleep_for(1ms), 0ns)), std::errc::timed_out);
  EXPECT_EQ(error_of(with_timeout(sleep_for(1ms), -1ns)), std::errc::timed_out);
  EXPECT_LT(elapsed(), 1ms);
}

TEST_F(WithTimeout, TheLongestDurationNeverExpires) {
  EXPECT_EQ(*run(with_timeout(after(1000h, 5), nanoseconds::max())), 5);
}

TEST_F(WithTimeout, TheInnerOfTwoMayBeTheShorter) {
  EXPECT_EQ(error_of([]() -> task<> {
              std::error_code inner;
              try {
                co_await with_timeout(sleep_for(1h), 1s);
              } catch (const std::system_error& error) {
                inner = error.code();
              }
              EXPECT_EQ(inner, std::errc::timed_out);
              co_await sleep_for(1s);  // was not stopped by the timeout
            }()),
            std::error_code());
  EXPECT_EQ(error_of(with_timeout(with_timeout(sleep_for(1h), 1s), 1min)), std::errc::timed_out);
  EXPECT_LT(elapsed(), 1min);
}

TEST_F(WithTimeout, TheOuterOfTwoMayBeTheShorter) {
  bool inner = false;
  const auto notes = [](bool& cancelled) -> task<> {
    try {
      co_await with_timeout(sleep_for(1h), 1min);
    } catch (const gyre::operation_cancelled&) {
      cancelled = true;
      throw;
    }
  };
  EXPECT_EQ(error_of(with_timeout(notes(inner), 1s)), std::errc::timed_out);
  EXPECT_TRUE(inner) << "no time limit of its own";
  EXPECT_LT(elapsed(), 1min);
}

TEST_F(WithTimeout, StopOfTheCoroutineIsNoTimeout) {
  inplace_stop_source source;
  std::future<void> result =
      gyre::spawn_future(executor_, with_timeout(sleep_for(1h), 1min), source.get_token());
  executor_.run_all();
  source.request_stop();
  executor_.run_all();
  try {
    result.get();
    ADD_FAILURE() << "was not stopped";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::operation_canceled);
  }
  EXPECT_EQ(executor_.timers_pending(), 0);
}

TEST_F(WithTimeout, StopThatCameBeforeIsNoTimeoutEither) {
  inplace_stop_source source;
  source.request_stop();
  EXPECT_THROW(gyre::testing::run_in_virtual_time(executor_, with_timeout(sleep_for(1h), 0ns),
                                                  source.get_token()),
               std::system_error);
  EXPECT_EQ(elapsed(), 0ns);
}

TEST_F(WithTimeout, ComesBackFromWhereItsAwaitableWent) {
  gyre::test::thread_executor there;
  std::future<void> result =
      gyre::spawn_future(executor_, [](gyre::executor& other, gyre::executor& home) -> task<> {
        co_await with_timeout(gyre::resume_on(other), 1h);
        EXPECT_TRUE(home.running_here());
        gyre::executor& here = co_await gyre::current_executor();
        EXPECT_EQ(&here, &home);
      }(there, executor_));
  while (result.wait_for(0s) != std::future_status::ready) executor_.run_all();
  result.get();
  EXPECT_EQ(executor_.timers_pending(), 0);
}

TEST_F(WithTimeout, TheTimeIsOverWhileItsAwaitableIsElsewhere) {
  gyre::test::thread_executor there;
  for (int round = 0; round < 300; ++round) {
    std::future<bool> result =
        gyre::spawn_future(executor_, with_timeout(
                                          [](gyre::executor& other) -> task<bool> {
                                            co_await gyre::resume_on(other);
                                            const auto token = co_await gyre::current_stop_token();
                                            co_return token.stop_requested();
                                          }(there),
                                          1us));
    while (result.wait_for(0s) != std::future_status::ready) executor_.advance(2us);
    static_cast<void>(result.get());
  }
}

TEST_F(WithTimeout, OnExecutorsWithoutTimersIsNotSupported) {
  try {
    gyre::sync_wait(with_timeout(gyre::yield(), 1s));
    ADD_FAILURE() << "there are no timers";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::operation_not_supported);
    EXPECT_TRUE(std::string_view(error.what()).contains("use sync_wait(loop, ...)"))
        << error.what();
  }
}

TEST_F(WithTimeout, AnEmptyTaskIsAnError) {
  EXPECT_THROW(run(with_timeout(task<>(), 1s)), std::logic_error);
  EXPECT_EQ(executor_.timers_pending(), 0);
}

TEST_F(WithTimeout, AwaitingItTwiceIsAnError) {
  EXPECT_THROW(run([]() -> task<> {
                 auto limited = with_timeout(sleep_for(1s), 2s);
                 co_await limited;
                 co_await limited;
               }()),
               std::logic_error);
}

// A single operation, and a task: the awaitables of both give errors as values.
template <class Limited>
task<std::error_code> error_value_of(Limited limited) {
  auto expected = gyre::as_expected(std::move(limited));
  const auto ended = co_await std::move(expected);
  co_return ended ? std::error_code() : ended.error();
}

TEST_F(WithTimeout, GivesErrorsAsValues) {
  const auto fails = [](std::error_code error) -> task<int&> {
    co_await gyre::yield();
    throw std::system_error(error);
  };
  const std::error_code broken = std::make_error_code(std::errc::broken_pipe);
  EXPECT_EQ(run(error_value_of(with_timeout(sleep_for(1h), 2s))), std::errc::timed_out);
  EXPECT_EQ(run(error_value_of(with_timeout(after(1h, 5), 2s))), std::errc::timed_out);
  EXPECT_EQ(run(error_value_of(with_timeout(sleep_for(1s), 2s))), std::error_code());
  EXPECT_EQ(run(error_value_of(with_timeout(after(1s, 5), 2s))), std::error_code());
  EXPECT_EQ(run(error_value_of(with_timeout(fails(broken), 2s))), broken);
  EXPECT_EQ(gyre::sync_wait(error_value_of(with_timeout(sleep_for(1s), 2s))),
            std::errc::operation_not_supported);
  EXPECT_EQ(gyre::sync_wait(error_value_of(with_timeout(after(1s, 5), 2s))),
            std::errc::operation_not_supported);
}

TEST_F(WithTimeout, StopOfTheCoroutineIsNoErrorValue) {
  const auto is_stopped = [](auto limited, bool as_value) -> task<bool> {
    try {
      if (as_value) {
        auto expected = gyre::as_expected(std::move(limited));
        static_cast<void>(co_await std::move(expected));
      } else {
        static_cast<void>(co_await std::move(limited));
      }
    } catch (const gyre::operation_cancelled&) {
      co_return true;
    }
    co_return false;
  };
  for (const bool as_value : {false, true}) {
    for (const bool is_task : {false, true}) {
      inplace_stop_source source;
      std::future<bool> stopped =
          gyre::spawn_future(executor_,
                             is_task ? is_stopped(with_timeout(after(1h, 5), 2h), as_value)
                                     : is_stopped(with_timeout(sleep_for(1h), 2h), as_value),
                             source.get_token());
      executor_.run_all();
      source.request_stop();
      executor_.run_all();
      EXPECT_TRUE(stopped.get()) << as_value << is_task;
      EXPECT_EQ(executor_.timers_pending(), 0);
    }
  }
}

// The limit expires, and before the coroutine is resumed it is asked to stop as well.
TEST_F(WithTimeout, TheFirstReasonToStopIsGiven) {
  inplace_stop_source source;
  std::future<std::error_code> error = gyre::spawn_future(
      executor_, error_value_of(with_timeout(sleep_for(1h), 2s)), source.get_token());
  executor_.run_all();
  struct stop_later : gyre::timer_operation {
    explicit stop_later(inplace_stop_source& its)
        : timer_operation([](gyre::timer_operation& expired) {
            static_cast<stop_later&>(expired).source->request_stop();
          }),
          source(&its) {}
    inplace_stop_source* source;
  } stop(source);
  executor_.start_timer(stop, executor_.now() + 2s);
  executor_.advance(3s);
  EXPECT_EQ(error.get(), std::errc::timed_out);
}

TEST_F(WithTimeout, ExpiryResumesTheCoroutineByOnePost) {
  std::future<std::error_code> error =
      gyre::spawn_future(executor_, error_value_of(with_timeout(sleep_for(1h), 2s)));
  executor_.run_all();
  const std::size_t posts = executor_.posts();
  executor_.advance(3s);
  EXPECT_EQ(error.get(), std::errc::timed_out);
  EXPECT_EQ(executor_.posts() - posts, 1U);
}

// Starts the task, destroys it while it waits, and checks that nothing of it is left.
void check_dropped(task<> work) {
  gyre::testing::manual_executor executor;
  gyre::inplace_stop_source outer;
  gyre::task_context context;
  context.where = &executor;
  context.stop = outer.get_token();
  gyre::detail::task_access::state(work).start(context);
  executor.run_all();
  EXPECT_GT(executor.timers_pending(), 1U);
  work = {};
  EXPECT_EQ(executor.timers_pending(), 0U);
  EXPECT_EQ(context.stop, outer.get_token());
  outer.request_stop();
  EXPECT_EQ(executor.run_all(), 0U);
}

TEST(WithTimeoutDropped, TakesAllItAwaitsAlong) {
  const auto sleep = []() -> task<> { co_await sleep_for(1h); };
  check_dropped(gyre::as_task(with_timeout(sleep(), 2h)));
  check_dropped(gyre::as_task(with_timeout(sleep_for(1h), 2h)));
}

}  // namespace
}  // namespace with_timeout_test

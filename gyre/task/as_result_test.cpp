// SPDX-License-Identifier: Apache-2.0
// Tests of as_result.
#include <gyre/task/as_result.hpp>

#include <gyre/task/schedule.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/when_any.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <coroutine>
#include <exception>
#include <expected>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

namespace as_result_test {
namespace {

using namespace std::chrono_literals;
using gyre::as_result;
using gyre::sync_wait;
using gyre::task;
using gyre::testing::manual_executor;
using gyre::testing::run_in_virtual_time;

task<std::unique_ptr<int>> gives(int value) { co_return std::make_unique<int>(value); }
template <class T, class Error>
task<T> fails(Error error) {
  throw error;
  co_return T();
}
task<> fails_with_nothing() {
  throw std::runtime_error("nothing");
  co_return;
}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& failure) {
    return failure.what();
  }
}

TEST(AsResult, GivesTheValueOfATask) {
  std::expected<std::unique_ptr<int>, std::exception_ptr> given = sync_wait(as_result(gives(7)));
  ASSERT_TRUE(given.has_value());
  EXPECT_EQ(**given, 7);
}

TEST(AsResult, GivesAnyExceptionOfATask) {
  const auto failed = sync_wait(as_result(fails<int>(std::runtime_error("no luck"))));
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(message_of(failed.error()), "no luck");
  const auto number = sync_wait(as_result(fails<int>(42)));
  ASSERT_FALSE(number.has_value());
  EXPECT_THROW(std::rethrow_exception(number.error()), int);
}

TEST(AsResult, TakesTasksOfNothing) {
  std::expected<void, std::exception_ptr> given = sync_wait(as_result(fails_with_nothing()));
  ASSERT_FALSE(given.has_value());
  EXPECT_EQ(message_of(given.error()), "nothing");
  given = sync_wait(as_result([]() -> task<> { co_return; }()));
  EXPECT_TRUE(given.has_value());
}

TEST(AsResult, GivesReferencesInAWrapper) {
  int value = 1;
  std::expected<std::reference_wrapper<int>, std::exception_ptr> given =
      sync_wait(as_result([](int& referred) -> task<int&> { co_return referred; }(value)));
  ASSERT_TRUE(given.has_value());
  EXPECT_EQ(&given->get(), &value);
}

// A value whose move fails.
struct moved_once {
  moved_once() = default;
  moved_once(moved_once&& from) : moves(from.moves + 1) {
    if (moves > 1) throw std::runtime_error("moved too often");
  }
  ~moved_once() {}  // NOLINT: not trivial, so that the result is destroyed
  int moves = 0;
};

TEST(AsResult, GivesAnExceptionOfTheValuesMove) {
  const auto awaits = []() -> task<std::string> {
    const auto given = co_await as_result([]() -> task<moved_once> { co_return moved_once(); }());
    co_return given ? "" : message_of(given.error());
  };
  EXPECT_EQ(sync_wait(awaits()), "moved too often");
}

TEST(AsResult, ThrowsNothingForAFailedTask) {
  struct counted : std::runtime_error {
    explicit counted(int& copies) : runtime_error("counted"), copied(&copies) {}
    counted(const counted& other) : runtime_error(other), copied(other.copied) { ++*copied; }
    counted& operator=(const counted&) = delete;
    int* copied;
  };
  int copies = 0;
  const auto failing = [](int& count) -> task<> {
    throw counted(count);
    co_return;
  };
  const auto failed = sync_wait(as_result(failing(copies)));
  EXPECT_FALSE(failed.has_value());
  EXPECT_EQ(copies, 0);
}

TEST(AsResult, GivesTheErrorOfAnOperationWithoutACoroutine) {
  EXPECT_FALSE((gyre::detail::is_task<decltype(as_result(gyre::sleep_for(1s)))>)) << "no frame";
  const auto failed = sync_wait(as_result(gyre::sleep_for(1s)));
  ASSERT_FALSE(failed.has_value());
  EXPECT_TRUE(message_of(failed.error()).contains("no timers here"));
  manual_executor executor;
  EXPECT_TRUE(run_in_virtual_time(executor, as_result(gyre::sleep_for(1s))).has_value());
}

TEST(AsResult, TakesOtherAwaitables) {
  struct foreign {
    static bool await_ready() { throw std::logic_error("foreign"); }
    static void await_suspend(std::coroutine_handle<>) {}
    static int await_resume() { return 1; }
  };
  EXPECT_EQ(message_of(sync_wait(as_result(foreign{})).error()), "foreign");
  EXPECT_TRUE(sync_wait(as_result(gyre::yield())).has_value());
  const auto timed_out = [](manual_executor& executor) -> std::expected<void, std::exception_ptr> {
    return run_in_virtual_time(executor, as_result(gyre::with_timeout(gyre::sleep_for(1h), 1s)));
  };
  manual_executor executor;
  const auto failed = timed_out(executor);
  ASSERT_FALSE(failed.has_value());
  EXPECT_THROW(std::rethrow_exception(failed.error()), std::system_error);
}

TEST(AsResult, NestsInCombinators) {
  manual_executor executor;
  const auto first = run_in_virtual_time(
      executor, gyre::when_any(as_result(fails_with_nothing()), gyre::sleep_for(1s)));
  EXPECT_EQ(first.index, 0);
  EXPECT_FALSE(std::get<0>(first.values)->has_value());
}

template <class Awaitable>
task<> notes_stop(Awaitable awaitable, bool& stopped) {
  try {
    static_cast<void>(co_await as_result(std::move(awaitable)));
    ADD_FAILURE() << "gave a stop as a result";
  } catch (const gyre::operation_cancelled&) {
    stopped = true;
  }
}

TEST(AsResult, AStopIsNoResult) {
  manual_executor executor;
  gyre::inplace_stop_source source;
  bool task_stopped = false;
  bool operation_stopped = false;
  const auto sleeps = []() -> task<> { co_await gyre::sleep_for(1h); };
  gyre::spawn(executor, notes_stop(sleeps(), task_stopped), {.stop = source.get_token()});
  gyre::spawn(executor, notes_stop(gyre::sleep_for(1h), operation_stopped),
              {.stop = source.get_token()});
  executor.run_all();
  source.request_stop();
  executor.run_all();
  EXPECT_TRUE(task_stopped);
  EXPECT_TRUE(operation_stopped);
}

TEST(AsResult, AnEmptyTaskIsAnError) {
  EXPECT_THROW(static_cast<void>(sync_wait(as_result(task<>()))), std::logic_error);
}

task<int> sums_failures(int count) {
  int failures = 0;
  for (int i = 0; i < count; ++i) {
    const auto failed = co_await as_result(fails_with_nothing());
    if (!failed) ++failures;
  }
  co_return failures;
}

TEST(AsResult, ManyInARowRunInConstantStack) {
  EXPECT_EQ(sync_wait(sums_failures(20'000)), 20'000);
}

}  // namespace
}  // namespace as_result_test

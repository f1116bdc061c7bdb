// SPDX-License-Identifier: Apache-2.0
// Tests that a coroutine ends after a stop request, even if it handles all errors.
#include <gyre/task/operation_cancelled.hpp>

#include <gyre/task/as_expected.hpp>
#include <gyre/task/collect.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/finally.hpp>
#include <gyre/task/from_callback.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/shared_task.hpp>
#include <gyre/task/shielded.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/stop_when.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/when_any.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>
#include <tests/support/sanitizers.hpp>
#include <tests/support/stubborn_coroutines.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace operation_cancelled_test {
namespace {

using namespace std::chrono_literals;
using gyre::as_expected;
using gyre::inplace_stop_source;
using gyre::operation_cancelled;
using gyre::sleep_for;
using gyre::task;
using gyre::detail::max_cancellations;
using gyre::test::log_errors;
using gyre::test::unless_sanitized;
using gyre::testing::manual_executor;

static_assert(!std::is_base_of_v<std::exception, operation_cancelled>);

task<> sleeps(std::chrono::nanoseconds duration) { co_await sleep_for(duration); }
task<> waits_for_callback() {
  std::optional<gyre::completion<void>> kept;
  auto waiting = gyre::from_callback<void>([&](gyre::completion<void> done) { kept = done; });
  co_await waiting;
}

/// A way to wait, and its name.
struct wait {
  std::string name;
  std::function<task<>()> begin;
};

std::vector<wait> all_waits() {
  return {
      {"a sleep", [] { return sleeps(1h); }},
      {"a callback", [] { return waits_for_callback(); }},
      {"with_timeout", [] { return gyre::with_timeout(sleeps(1h), 2h); }},
      {"stop_when",
       []() -> task<> {
         inplace_stop_source never;
         co_await gyre::stop_when(sleeps(1h), never.get_token());
       }},
      {"when_all",
       []() -> task<> {
         auto both = gyre::when_all(sleeps(1h), sleeps(2h));
         co_await std::move(both);
       }},
      {"when_any",
       []() -> task<> {
         auto both = gyre::when_any(sleeps(1h), sleeps(2h));
         co_await std::move(both);
       }},
      {"collect",
       []() -> task<> {
         auto all = gyre::collect(3, [](std::size_t) { return sleeps(1h); }, 2);
         co_await std::move(all);
       }},
      {"with_scope",
       []() -> task<> {
         auto body = [](gyre::scope& here) -> task<> {
           here.spawn(sleeps(1h));
           co_await sleep_for(1h);
         };
         auto all = gyre::with_scope(body);
         co_await std::move(all);
       }},
      {"finally", [] { return gyre::finally(sleeps(1h), [] {}); }},
      {"shared_task",
       []() -> task<> {
         gyre::shared_task<> shared(sleeps(1h));
         co_await shared;
       }},
  };
}

class Cancelled : public testing::Test {
 protected:
  /// Runs `work`, requests its stop when all its coroutines wait, and runs it on. The future holds
  /// the result.
  std::future<void> stop_while_waiting(task<> work) {
    std::future<void> ended = gyre::spawn_future(executor_, std::move(work), stop_.get_token());
    executor_.run_all();
    stop_.request_stop();
    executor_.run_all();
    return ended;
  }
  static bool has_ended(std::future<void>& future) {
    return future.wait_for(0s) == std::future_status::ready;
  }
  static std::error_code error_of(std::future<void>& future) {
    try {
      future.get();
    } catch (const std::system_error& error) {
      return error.code();
    }
    return {};
  }

  manual_executor executor_;
  inplace_stop_source stop_;
  int swallowed_ = 0;
};

TEST_F(Cancelled, PassesALoopThatCatchesStdException) {
  for (const wait& each : all_waits()) {
    inplace_stop_source stop;
    int swallowed = 0;
    auto ended = gyre::spawn_future(executor_, log_errors(each.begin, swallowed), stop.get_token());
    executor_.run_all();
    EXPECT_FALSE(has_ended(ended)) << each.name;
    stop.request_stop();
    executor_.run_all();
    ASSERT_TRUE(has_ended(ended)) << each.name;
    EXPECT_EQ(error_of(ended), std::errc::operation_canceled) << each.name;
    EXPECT_EQ(swallowed, 0) << each.name;
  }
}

TEST_F(Cancelled, PassesALoopThatWasStoppedBeforeItBegan) {
  stop_.request_stop();
  for (const wait& each : all_waits()) {
    auto ended =
        gyre::spawn_future(executor_, log_errors(each.begin, swallowed_), stop_.get_token());
    executor_.run_all();
    ASSERT_TRUE(has_ended(ended)) << each.name;
    EXPECT_EQ(error_of(ended), std::errc::operation_canceled) << each.name;
    EXPECT_EQ(swallowed_, 0) << each.name;
  }
}

TEST_F(Cancelled, PassesAsExpectedOfAnOperation) {
  auto loop = [](int& swallowed) -> task<> {
    for (;;) {
      const auto slept = co_await as_expected(sleep_for(1h));
      if (!slept && ++swallowed == 1000) co_return;
    }
  };
  auto ended = stop_while_waiting(loop(swallowed_));
  ASSERT_TRUE(has_ended(ended));
  EXPECT_EQ(error_of(ended), std::errc::operation_canceled);
  EXPECT_EQ(swallowed_, 0);
}

TEST_F(Cancelled, PassesAsExpectedOfATask) {
  auto loop = [](int& swallowed) -> task<> {
    for (;;) {
      auto sleeping = as_expected(sleeps(1h));
      const auto slept = co_await std::move(sleeping);
      if (!slept && ++swallowed == 1000) co_return;
    }
  };
  auto ended = stop_while_waiting(loop(swallowed_));
  ASSERT_TRUE(has_ended(ended));
  EXPECT_EQ(error_of(ended), std::errc::operation_canceled);
  EXPECT_EQ(swallowed_, 0);
}

TEST_F(Cancelled, IsAnErrorCodeForTheCodeOutside) {
  EXPECT_THROW(gyre::sync_wait(gyre::from_callback<void>([](gyre::completion<void>) {}),
                               [this] {
                                 stop_.request_stop();
                                 return stop_.get_token();
                               }()),
               std::system_error);
  std::error_code reported;
  gyre::spawn_options options;
  options.stop = stop_.get_token();
  options.on_error = [&](const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::system_error& failure) {
      reported = failure.code();
    }
  };
  gyre::spawn(executor_, sleeps(1h), std::move(options));
  executor_.run_all();
  EXPECT_EQ(reported, std::errc::operation_canceled);
}

TEST_F(Cancelled, EndsADetachedCoroutineWithoutAHandlerInSilence) {
  gyre::spawn(executor_, sleeps(1h), {.stop = stop_.get_token()});
  executor_.run_all();
  stop_.request_stop();
  executor_.run_all();
  EXPECT_EQ(executor_.timers_pending(), 0U);
}

TEST_F(Cancelled, IsNoNameForAnOperationThatSomebodyElseCancelled) {
  auto work = []() -> task<> {
    co_await gyre::from_callback<void>([](gyre::completion<void> done) {
      done.set_error(std::make_error_code(std::errc::operation_canceled));
    });
  };
  auto outer = [](task<> inner) -> task<bool> {
    try {
      co_await std::move(inner);
    } catch (const std::system_error& error) {
      co_return error.code() == std::errc::operation_canceled;
    }
    co_return false;
  };
  EXPECT_TRUE(gyre::testing::run_in_virtual_time(executor_, outer(work())));
}

// A pending yield always completes: the next yield throws if a stop was requested meanwhile.
TEST_F(Cancelled, EndsALoopThatOnlyYields) {
  int turns = 0;
  auto loop = [](int& count) -> task<> {
    while (++count < 1000) co_await gyre::yield();
  };
  auto ended = gyre::spawn_future(executor_, loop(turns), stop_.get_token());
  for (int i = 0; i < 10; ++i) executor_.run_one();
  EXPECT_EQ(turns, 10);
  EXPECT_FALSE(has_ended(ended));
  stop_.request_stop();
  executor_.run_all();
  ASSERT_TRUE(has_ended(ended));
  EXPECT_EQ(error_of(ended), std::errc::operation_canceled);
  EXPECT_EQ(turns, 11);
}

TEST_F(Cancelled, LetsALoopThatLooksForItselfEndWell) {
  auto loop = []() -> task<> {
    const gyre::inplace_stop_token stop = co_await gyre::current_stop_token();
    while (!stop.stop_requested()) co_await gyre::yield();
  };
  auto ended = gyre::spawn_future(executor_, loop(), stop_.get_token());
  for (int i = 0; i < 10; ++i) executor_.run_one();
  EXPECT_FALSE(has_ended(ended));
  stop_.request_stop();
  executor_.run_all();
  ASSERT_TRUE(has_ended(ended));
  EXPECT_FALSE(error_of(ended));
}

TEST_F(Cancelled, PassesAYieldWithoutAnExecutor) {
  stop_.request_stop();
  auto loop = []() -> task<> {
    for (int i = 0; i < 1000; ++i) co_await gyre::yield();
  };
  auto ended = gyre::spawn_future(gyre::inline_executor(), loop(), stop_.get_token());
  ASSERT_TRUE(has_ended(ended));
  EXPECT_EQ(error_of(ended), std::errc::operation_canceled);
}

// A yield lets others run before it throws.
TEST_F(Cancelled, LetsOthersRunWhereAYieldIsSwallowed) {
  stop_.request_stop();
  bool enough = false;
  auto yields = []() -> task<> { co_await gyre::yield(); };
  gyre::test::swallow_until_others_run(executor_, yields, swallowed_, enough, stop_.get_token());
  executor_.run_all();
  EXPECT_TRUE(enough);
  EXPECT_EQ(swallowed_, 1);
}

// Each of these combinators stops its own work only: the coroutine around it was not asked to stop.
TEST_F(Cancelled, StaysWithinTheWorkThatWasAskedToStop) {
  auto timed = []() -> task<std::error_code> {
    bool inner_learned = false;
    auto inner = [](bool& learned) -> task<> {
      try {
        co_await sleep_for(1h);
      } catch (const operation_cancelled&) {
        learned = true;
        throw;
      }
    };
    try {
      co_await gyre::with_timeout(inner(inner_learned), 1s);
    } catch (const std::system_error& error) {
      EXPECT_TRUE(inner_learned);
      co_return error.code();
    }
    co_return std::error_code{};
  };
  EXPECT_EQ(gyre::testing::run_in_virtual_time(executor_, timed()), std::errc::timed_out);

  auto stopped = [](inplace_stop_source& stop) -> task<std::errc> {
    stop.request_stop();
    try {
      co_await gyre::stop_when(sleeps(1h), stop.get_token());
    } catch (const std::system_error& error) {
      co_return static_cast<std::errc>(error.code().value());
    }
    co_return std::errc{};
  };
  EXPECT_EQ(gyre::testing::run_in_virtual_time(executor_, stopped(stop_)),
            std::errc::operation_canceled);

  auto scoped = []() -> task<int> {
    auto body = [](gyre::scope& here) -> task<> {
      here.spawn(sleeps(1h));
      here.request_stop();
      co_await sleep_for(1h);
    };
    auto all = gyre::with_scope(body);
    co_await std::move(all);
    co_return 1;
  };
  EXPECT_EQ(gyre::testing::run_in_virtual_time(executor_, scoped()), 1);

  auto raced = []() -> task<std::size_t> {
    auto both = gyre::when_any(sleeps(1h), sleeps(1s));
    const auto first = co_await std::move(both);
    co_return first.index;
  };
  EXPECT_EQ(gyre::testing::run_in_virtual_time(executor_, raced()), 1u);
}

TEST_F(Cancelled, LetsCleanUpWait) {
  bool cleaned = false;
  auto work = [](bool& done) -> task<> {
    auto clean = [&done]() -> task<> {
      co_await sleep_for(1s);
      done = true;
    };
    co_await gyre::finally(sleeps(1h), std::ref(clean));
  };
  auto ended = stop_while_waiting(work(cleaned));
  EXPECT_FALSE(cleaned);
  executor_.advance(1s);
  EXPECT_TRUE(cleaned);
  EXPECT_EQ(error_of(ended), std::errc::operation_canceled);
}

// Every expired limit cancels the inner work: that does not count as a swallowed cancellation.
TEST_F(Cancelled, IsNotCountedBeyondTheWorkThatWasAskedToStop) {
  auto work = []() -> task<std::uint32_t> {
    for (int i = 0; i < 200; ++i) {
      auto slept = as_expected(gyre::with_timeout(sleeps(1h), 1s));
      static_cast<void>(co_await std::move(slept));
    }
    co_return (co_await gyre::detail::this_context()).cancellations;
  };
  EXPECT_EQ(gyre::testing::run_in_virtual_time(executor_, work()), 0u);
}

// Rethrowing through many levels does not count as swallowed either.
TEST_F(Cancelled, IsCountedOnceHoweverDeepItWasThrown) {
  stop_.request_stop();
  auto work = []() -> task<std::uint32_t> {
    auto body = [](gyre::scope&) -> task<> { co_await gyre::with_timeout(sleeps(1h), 1h); };
    try {
      inplace_stop_source never;
      auto all = gyre::stop_when(gyre::with_timeout(gyre::with_scope(body), 1h), never.get_token());
      co_await std::move(all);
    } catch (const operation_cancelled&) {  // the coroutine continues
    }
    auto here = gyre::detail::this_context();
    co_return (co_await here).cancellations;
  };
  auto counted = gyre::spawn_future(executor_, work(), stop_.get_token());
  executor_.run_all();
  EXPECT_EQ(counted.get(), 1U);
}

// Other coroutines of the executor run, for instance one that ends the loop.
TEST_F(Cancelled, SwallowedByCatchAllGivesWayToOthers) {
  for (const wait& each : all_waits()) {
    inplace_stop_source stop;
    stop.request_stop();
    int swallowed = 0;
    bool enough = false;
    gyre::test::swallow_until_others_run(executor_, each.begin, swallowed, enough,
                                         stop.get_token());
    executor_.run_all();
    EXPECT_TRUE(enough) << each.name;
    EXPECT_GE(swallowed, 1) << each.name;
    EXPECT_LE(swallowed, static_cast<int>(gyre::detail::prompt_cancellations) + 1) << each.name;
  }
}

TEST_F(Cancelled, OverlookedInWhenAllReadyGivesWayToOthers) {
  auto loop = [](std::size_t& rounds, const bool& enough) -> task<> {
    while (!enough) {
      auto both = gyre::when_all_ready(sleeps(1h), sleeps(1h));
      static_cast<void>(co_await std::move(both));
      ++rounds;
    }
  };
  stop_.request_stop();
  std::size_t rounds = 0;
  bool enough = false;
  auto ended = gyre::spawn_future(executor_, loop(rounds, enough), stop_.get_token());
  executor_.run_one();
  EXPECT_EQ(rounds, gyre::detail::prompt_cancellations);
  enough = true;
  executor_.run_all();
  EXPECT_TRUE(has_ended(ended));
}

TEST(CancelledDeathTest, SwallowedForEverEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        manual_executor executor;
        inplace_stop_source stop;
        stop.request_stop();
        // Under a sanitizer, where a throw takes up to a millisecond, the count starts near the
        // limit.
        const auto swallow = []() -> task<> {
          (co_await gyre::detail::this_context()).cancellations =
              max_cancellations - unless_sanitized(max_cancellations);
          int swallowed = 0;
          const bool never = false;
          co_await gyre::test::swallow_everything([] { return sleeps(1h); }, swallowed, never);
        };
        gyre::spawn(executor, swallow(), {.stop = stop.get_token(), .name = "the loop"});
        executor.run_all();
      },
      "asked to stop swallowed gyre::operation_cancelled 100000 times");
}

}  // namespace
}  // namespace operation_cancelled_test

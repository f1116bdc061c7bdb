// SPDX-License-Identifier: Apache-2.0
// Tests of the rate limiter, in virtual time. The stress test with threads is in exec.
#include <gyre/sync/rate_limiter.hpp>

#include <gyre/sync/sync_test_support.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace rate_limiter_test {
namespace {

using namespace std::chrono_literals;
using gyre::inplace_stop_source;
using gyre::rate_limiter;
using gyre::task;
using gyre::test::started;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using testing::ElementsAre;

// So with_timeout(limit.acquire(), …) needs no coroutine of its own.
static_assert(gyre::detail::single_operation<rate_limiter::acquire_operation>);
static_assert(sizeof(rate_limiter::acquire_operation) <= 448);

class RateLimiter : public testing::Test {
 public:
  template <gyre::awaitable Awaitable>
  gyre::task_result_t<Awaitable> run(Awaitable work) {
    return gyre::testing::run_in_virtual_time(executor_, std::move(work));
  }
  milliseconds now() const {
    return std::chrono::duration_cast<milliseconds>(executor_.now() - start_);
  }
  task<> takes(rate_limiter& from, std::uint64_t tokens, int number = 0) {
    co_await from.acquire(tokens);
    order_.push_back(number);
    taken_.push_back(now());
  }
  task<> takes_often(rate_limiter& from, int times) {
    for (int i = 0; i < times; ++i) co_await takes(from, 1);
  }

  gyre::testing::manual_executor executor_;
  const gyre::steady_time start_ = executor_.now();
  std::vector<int> order_;
  std::vector<milliseconds> taken_;
};

TEST_F(RateLimiter, GivesABurstAndThenTokensAtItsRate) {
  rate_limiter limit({.tokens = 100, .per = 1s, .burst = 3});
  run(takes_often(limit, 6));
  EXPECT_THAT(taken_, ElementsAre(0ms, 0ms, 0ms, 10ms, 20ms, 30ms));
}

TEST_F(RateLimiter, WithoutABurstTokensAreSpreadEvenly) {
  rate_limiter limit({.tokens = 100, .per = 1s});
  run(takes_often(limit, 4));
  EXPECT_THAT(taken_, ElementsAre(0ms, 10ms, 20ms, 30ms));
}

TEST_F(RateLimiter, FillsUpToTheBurstAndNoMore) {
  rate_limiter limit({.tokens = 100, .per = 1s, .burst = 2});
  const auto rests = [](RateLimiter& test, rate_limiter& from) -> task<> {
    co_await test.takes_often(from, 2);
    co_await gyre::sleep_for(1s);
    co_await test.takes_often(from, 3);
  };
  run(rests(*this, limit));
  EXPECT_THAT(taken_, ElementsAre(0ms, 0ms, 1000ms, 1000ms, 1010ms));
}

TEST_F(RateLimiter, ManyTokensWaitUntilTheyAreThereTogether) {
  rate_limiter limit({.tokens = 100, .per = 1s, .burst = 10});
  const auto giant = [](RateLimiter& test, rate_limiter& from) -> task<> {
    co_await test.takes(from, 10);
    co_await test.takes(from, 5);
    co_await test.takes(from, 10);
    co_await test.takes(from, 0);
  };
  run(giant(*this, limit));
  EXPECT_THAT(taken_, ElementsAre(0ms, 50ms, 150ms, 150ms));
}

TEST_F(RateLimiter, IsExactForRatesThatAreNoWholeNanoseconds) {
  rate_limiter often({.tokens = 3, .per = 1s, .burst = 2});
  std::uint64_t taken = 0;
  for (nanoseconds time{0}; time <= 10'000s; time += 250ms) {
    if (often.try_acquire(start_ + time)) ++taken;
  }
  EXPECT_EQ(taken, 30'002);
  // Both 333 333 333 ns and 333 333 334 ns a token would be wrong by a second.
  constexpr std::uint64_t many = 3'000'000'000;
  rate_limiter limit({.tokens = 3, .per = 1s, .burst = many});
  EXPECT_TRUE(limit.try_acquire(start_, many));
  EXPECT_FALSE(limit.try_acquire(start_ + 1'000'000'000s - 1ns, many));
  EXPECT_TRUE(limit.try_acquire(start_ + 1'000'000'000s, many));
  rate_limiter fast({.tokens = 7'000'000'000, .per = 1s, .burst = 1'000'000'000'000});
  EXPECT_TRUE(fast.try_acquire(start_, 1'000'000'000'000));
  EXPECT_FALSE(fast.try_acquire(start_ + 999'999'999ns, 7'000'000'000));
  EXPECT_TRUE(fast.try_acquire(start_ + 1s, 7'000'000'000));
}

TEST_F(RateLimiter, TheLargestNumbersDoNotOverflow) {
  constexpr std::uint64_t most = std::uint64_t{1} << 62U;
  rate_limiter fast({.tokens = most, .per = 1ns, .burst = most});
  EXPECT_TRUE(fast.try_acquire(start_, most));
  EXPECT_FALSE(fast.try_acquire(start_, 1));
  EXPECT_TRUE(fast.try_acquire(start_ + 1ns, most));
  rate_limiter slow({.tokens = 1, .per = nanoseconds(most), .burst = most});
  EXPECT_TRUE(slow.try_acquire(start_, most));
  EXPECT_FALSE(slow.try_acquire(gyre::steady_time(nanoseconds(most)), 1));
  EXPECT_FALSE(slow.try_acquire(gyre::steady_time::max() - 1ns, most));
  started waits(executor_, takes(slow, most));
  executor_.advance(10'000h);
  EXPECT_FALSE(waits.done());
}

TEST_F(RateLimiter, ServesInTheOrderOfComingAlsoThoseThatWantMany) {
  rate_limiter limit({.tokens = 100, .per = 1s, .burst = 5});
  ASSERT_TRUE(limit.try_acquire(start_, 5));
  gyre::spawn(executor_, takes(limit, 5, 1));
  gyre::spawn(executor_, takes(limit, 1, 2));
  gyre::spawn(executor_, takes(limit, 3, 3));
  executor_.advance(1s);
  EXPECT_THAT(order_, ElementsAre(1, 2, 3));
  EXPECT_THAT(taken_, ElementsAre(50ms, 60ms, 90ms));
}

TEST_F(RateLimiter, TriesDoNotOvertakeThoseThatWait) {
  rate_limiter limit({.tokens = 100, .per = 1s, .burst = 5});
  ASSERT_TRUE(limit.try_acquire(start_, 4));
  gyre::spawn(executor_, takes(limit, 5));
  executor_.run_all();
  EXPECT_FALSE(limit.try_acquire(executor_.now()));
  executor_.advance(100ms);
  EXPECT_THAT(taken_, ElementsAre(40ms));
  EXPECT_TRUE(limit.try_acquire(executor_.now()));
}

TEST_F(RateLimiter, OneThatIsStoppedAtTheHeadTakesNothingAndDelaysNobody) {
  rate_limiter limit({.tokens = 100, .per = 1s, .burst = 5});
  ASSERT_TRUE(limit.try_acquire(start_, 5));
  inplace_stop_source source;
  gyre::spawn(executor_, takes(limit, 5, 1), {.stop = source.get_token()});
  gyre::spawn(executor_, takes(limit, 1, 2));
  executor_.advance(30ms);
  EXPECT_THAT(taken_, ElementsAre());
  source.request_stop();
  executor_.run_all();
  EXPECT_THAT(order_, ElementsAre(2));
  EXPECT_THAT(taken_, ElementsAre(30ms)) << "three tokens have come";
  EXPECT_TRUE(limit.try_acquire(executor_.now(), 2));
  EXPECT_EQ(executor_.timers_pending(), 0);
}

TEST_F(RateLimiter, OneThatIsStoppedInTheLineTakesNothing) {
  rate_limiter limit({.tokens = 100, .per = 1s, .burst = 5});
  ASSERT_TRUE(limit.try_acquire(start_, 5));
  inplace_stop_source source;
  gyre::spawn(executor_, takes(limit, 1, 1));
  gyre::spawn(executor_, takes(limit, 5, 2), {.stop = source.get_token()});
  gyre::spawn(executor_, takes(limit, 1, 3));
  executor_.run_all();
  source.request_stop();
  executor_.advance(1s);
  EXPECT_THAT(order_, ElementsAre(1, 3));
  EXPECT_THAT(taken_, ElementsAre(10ms, 20ms));
}

TEST_F(RateLimiter, AStopBeforeTheTokensComeTakesNothing) {
  rate_limiter limit({.tokens = 100, .per = 1s});
  ASSERT_TRUE(limit.try_acquire(start_));
  inplace_stop_source source;
  gyre::spawn(executor_, takes(limit, 1), {.stop = source.get_token()});
  executor_.run_all();
  source.request_stop();    // the executor runs this
  executor_.advance(10ms);  // before the timer
  EXPECT_THAT(taken_, ElementsAre());
  EXPECT_TRUE(limit.try_acquire(executor_.now()));
}

TEST_F(RateLimiter, AStopAfterTheTokensHaveComeIsTooLate) {
  rate_limiter limit({.tokens = 100, .per = 1s});
  ASSERT_TRUE(limit.try_acquire(start_));
  inplace_stop_source source;
  gyre::spawn(executor_, takes(limit, 1), {.stop = source.get_token()});
  executor_.run_all();
  executor_.advance(11ms);
  source.request_stop();
  executor_.run_all();
  EXPECT_THAT(taken_, ElementsAre(10ms));
  EXPECT_FALSE(limit.try_acquire(executor_.now()));
}

TEST_F(RateLimiter, AStopCountsOnlyIfItHasToWait) {
  rate_limiter limit({.tokens = 100, .per = 1s});
  inplace_stop_source source;
  source.request_stop();
  gyre::spawn(executor_, takes_often(limit, 2), {.stop = source.get_token()});
  executor_.advance(1s);
  EXPECT_THAT(taken_, ElementsAre(0ms));
}

TEST_F(RateLimiter, ATimeoutTakesNothing) {
  rate_limiter limit({.tokens = 100, .per = 1s});
  const auto polls = [](RateLimiter& test, rate_limiter& from) -> task<> {
    co_await test.takes(from, 1);
    for (int i = 0; i < 3; ++i) {
      const auto taken =
          co_await gyre::as_expected(gyre::with_timeout(from.acquire(), milliseconds(2)));
      EXPECT_EQ(taken.error(), std::errc::timed_out);
    }
    co_await test.takes(from, 1);
  };
  run(polls(*this, limit));
  EXPECT_THAT(taken_, ElementsAre(0ms, 10ms));
}

TEST_F(RateLimiter, KeepsItsLimitAtTheEndOfTime) {
  rate_limiter slow({.tokens = 1, .per = 24h, .burst = 1});
  EXPECT_TRUE(slow.try_acquire(gyre::steady_time::max()));
  EXPECT_FALSE(slow.try_acquire(gyre::steady_time::max()));
}

TEST_F(RateLimiter, MayBeDestroyedWhileItWaits) {
  rate_limiter limit({.tokens = 100, .per = 1s, .burst = 5});
  ASSERT_TRUE(limit.try_acquire(start_, 5));
  // Starts on the executor, and is dropped there.
  struct starter : gyre::operation {
    explicit starter(RateLimiter& of, rate_limiter& from)
        : operation([](operation& self) { static_cast<starter&>(self).start(); }),
          test(of),
          limit(from) {}
    void start() {
      head.emplace(test.executor_, test.takes(limit, 5, 1));
      in_line.emplace(test.executor_, test.takes(limit, 5, 2));
    }
    RateLimiter& test;
    rate_limiter& limit;
    std::optional<started> head;
    std::optional<started> in_line;
  } both(*this, limit);
  executor_.post(both);
  executor_.run_all();
  gyre::spawn(executor_, takes(limit, 1, 3));
  executor_.run_all();
  EXPECT_EQ(executor_.timers_pending(), 1);
  both.in_line->drop();
  both.head->drop();
  EXPECT_EQ(executor_.timers_pending(), 0);
  executor_.advance(1s);
  EXPECT_THAT(order_, ElementsAre(3));
  EXPECT_THAT(taken_, ElementsAre(10ms));
}

TEST_F(RateLimiter, ManyThatNeedNotWaitRunInConstantStack) {
  rate_limiter limit({.tokens = 1'000'000'000, .per = 1ns, .burst = 1'000'000'000});
  const auto takes_many = [](rate_limiter& from) -> task<> {
    for (int i = 0; i < 100'000; ++i) co_await from.acquire();
  };
  run(takes_many(limit));
}

TEST_F(RateLimiter, OptionsAndRequestsThatMakeNoSenseAreErrors) {
  EXPECT_THROW(rate_limiter({.tokens = 0}), std::invalid_argument);
  EXPECT_THROW(rate_limiter({.per = 0s}), std::invalid_argument);
  EXPECT_THROW(rate_limiter({.per = -1s}), std::invalid_argument);
  EXPECT_THROW(rate_limiter({.burst = 0}), std::invalid_argument);
  EXPECT_THROW(rate_limiter({.tokens = ~std::uint64_t{0}}), std::invalid_argument);
  rate_limiter limit({.tokens = 100, .burst = 5});
  try {
    static_cast<void>(limit.acquire(6));
    ADD_FAILURE() << "would wait for ever";
  } catch (const std::invalid_argument& error) {
    EXPECT_TRUE(std::string_view(error.what()).contains("6 tokens")) << error.what();
  }
  EXPECT_THROW(static_cast<void>(limit.try_acquire(start_, 6)), std::invalid_argument);
  EXPECT_TRUE(limit.try_acquire(start_, 5));
}

TEST_F(RateLimiter, OnExecutorsWithoutTimersIsNotSupported) {
  rate_limiter limit({.tokens = 100});
  try {
    gyre::sync_wait(limit.acquire());
    ADD_FAILURE() << "has no clock";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::operation_not_supported);
    EXPECT_TRUE(std::string_view(error.what()).contains("gyre::rate_limiter")) << error.what();
  }
  EXPECT_EQ(gyre::sync_wait(gyre::as_expected(limit.acquire())).error(),
            std::errc::operation_not_supported);
  EXPECT_TRUE(limit.try_acquire(start_)) << "nobody holds the line";
}

}  // namespace
}  // namespace rate_limiter_test

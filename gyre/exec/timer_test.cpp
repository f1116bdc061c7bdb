// SPDX-License-Identifier: Apache-2.0
// Tests of timers, in virtual time.
#include <gyre/exec/timer.hpp>

#include <gyre/base/timer_operation.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/testing/virtual_time_loop.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace timer_test {
namespace {

using namespace std::chrono_literals;
using gyre::steady_time;
using gyre::timer;
using gyre::testing::virtual_time_loop;
using std::chrono::nanoseconds;
using testing::ElementsAre;

// A plain number does not convert: intended milliseconds must not become nanoseconds.
template <class Delay>
concept starts_a_timer_after = requires(timer& t, Delay d) { t.start_after(d); };
template <class Period>
concept starts_a_timer_every = requires(timer& t, Period p) { t.start_every(p); };
static_assert(starts_a_timer_after<nanoseconds> && starts_a_timer_after<std::chrono::hours>);
static_assert(!starts_a_timer_after<int> && !starts_a_timer_after<long>);
static_assert(starts_a_timer_every<nanoseconds> && !starts_a_timer_every<int>);

class Timer : public testing::Test {
 protected:
  nanoseconds elapsed() const { return loop_.now() - start_; }
  // The wheel looks at the clock in steps of 1.024 us, and never early.
  static constexpr nanoseconds precision = 1024ns;

  virtual_time_loop<> virtual_time_;
  gyre::loop& loop_ = virtual_time_.loop;
  const steady_time start_ = loop_.now();
};

TEST_F(Timer, TimeLimitBeginsInTheRunThatAStopEnds) {
  static int expired;
  expired = 0;
  gyre::timer_operation limit([](gyre::timer_operation&) { ++expired; });
  loop_.post([&] {
    loop_.start_time_limit(limit, 5ms);
    loop_.stop();
  });
  loop_.run();
  virtual_time_.time.advance(1s);
  loop_.restart();
  while (loop_.poll()) continue;
  EXPECT_EQ(expired, 1);
}

TEST_F(Timer, FiresOnceWhenItsTimeHasComeAndNotBefore) {
  for (const nanoseconds delay : {1ns, 999ns, 1000ns, 1ms + 1ns, 1s + 7ns, nanoseconds(100h)}) {
    virtual_time_loop<> fresh;
    const steady_time start = fresh.loop.now();
    int fired = 0;
    timer once(fresh.loop, [&] {
      ++fired;
      EXPECT_GE(fresh.loop.now(), start + delay);
      EXPECT_LE(fresh.loop.now(), start + delay + precision);
    });
    once.start_after(delay);
    EXPECT_TRUE(once.active());
    EXPECT_EQ(once.deadline(), start + delay);
    fresh.loop.run_for(delay * 3 + 1s);
    EXPECT_EQ(fired, 1);
    EXPECT_FALSE(once.active());
  }
}

TEST_F(Timer, NeverFiresEarlyWhateverTheLoopsRhythm) {
  std::minstd_rand random(1);
  int fired = 0;
  for (int round = 0; round < 500; ++round) {
    const nanoseconds delay(random() % 50'000);
    const steady_time due = loop_.now() + delay;
    timer once(loop_, [&] {
      ++fired;
      EXPECT_GE(loop_.now(), due);
    });
    once.start_after(delay);
    while (once.active()) {
      virtual_time_.time.advance(nanoseconds(random() % 700));
      loop_.poll();
    }
  }
  EXPECT_EQ(fired, 500);
}

TEST_F(Timer, ZeroAndNegativeDelaysEndInTheNextTurn) {
  int fired = 0;
  timer zero(loop_, [&] { ++fired; });
  timer negative(loop_, [&] { ++fired; });
  timer past(loop_, [&] { ++fired; });
  timer dawn(loop_, [&] { ++fired; });
  zero.start_after(0ns);
  negative.start_after(-5s);
  past.start_at(start_ - 1h);
  dawn.start_at(steady_time::min());
  EXPECT_EQ(fired, 0) << "not from within start";
  EXPECT_TRUE(loop_.poll());
  EXPECT_EQ(fired, 4);
}

TEST_F(Timer, ZeroDelayEndsInTheNextTurnThoughNoTimePasses) {
  for (int i = 0; i < 2000; ++i) {
    virtual_time_.time.advance(1ns);  // tries all phases of the wheel's tick
    bool fired = false;
    timer zero(loop_, [&] { fired = true; });
    zero.start_after(0ns);
    loop_.poll();
    ASSERT_TRUE(fired);
  }
}

TEST_F(Timer, BeyondTheEndOfTimeNeverFires) {
  timer never(loop_, [] { FAIL(); });
  timer also_never(loop_, [] { FAIL(); });
  never.start_after(nanoseconds::max());
  also_never.start_at(steady_time::max());
  loop_.run_for(200 * 365 * 24h);
  EXPECT_TRUE(never.active());
  EXPECT_TRUE(never.cancel());
}

TEST_F(Timer, FireInTheOrderOfTheirDeadlines) {
  std::minstd_rand random(2);
  std::vector<std::unique_ptr<timer>> timers;
  std::vector<steady_time> fired;
  for (std::size_t i = 0; i < 1000; ++i) {
    timers.push_back(
        std::make_unique<timer>(loop_, [&, i] { fired.push_back(timers[i]->deadline()); }));
    timers[i]->start_after(nanoseconds(random() % 20'000'000));
  }
  // Some turns find several timers due, some one.
  for (int turn = 0; turn < 25; ++turn) {
    virtual_time_.time.advance(1ms);
    loop_.poll();
  }
  ASSERT_EQ(fired.size(), 1000u);
  EXPECT_TRUE(std::is_sorted(fired.begin(), fired.end()));
}

TEST_F(Timer, EqualDeadlinesFireInTheOrderOfTheirStarts) {
  std::vector<int> fired;
  timer first(loop_, [&] { fired.push_back(1); });
  timer second(loop_, [&] { fired.push_back(2); });
  second.start_at(start_ + 1s);
  first.start_at(start_ + 1s);
  second.start_at(start_ + 1s);  // again: now after the first
  loop_.run_for(2s);
  EXPECT_THAT(fired, ElementsAre(1, 2));
}

TEST_F(Timer, StartingAgainReplacesTheEarlierStart) {
  int fired = 0;
  timer moved(loop_, [&] { ++fired; });
  moved.start_after(1s);
  moved.start_after(10s);
  loop_.run_for(5s);
  EXPECT_EQ(fired, 0);
  moved.start_after(1s);
  loop_.run_for(20s);
  EXPECT_EQ(fired, 1);
}

TEST_F(Timer, CancelledDoesNotFire) {
  timer cancelled(loop_, [] { FAIL(); });
  cancelled.start_after(1s);
  EXPECT_TRUE(cancelled.cancel());
  EXPECT_FALSE(cancelled.active());
  EXPECT_FALSE(cancelled.cancel());
  loop_.run_for(2s);
  EXPECT_EQ(loop_.metrics().timers_pending, 0u);
}

TEST_F(Timer, IsCancelledByItsDestructor) {
  {
    timer gone(loop_, [] { FAIL(); });
    gone.start_every(1s);
  }
  loop_.run_for(2s);
  EXPECT_EQ(loop_.metrics().timers_fired, 0u);
}

TEST_F(Timer, IsInactiveInItsOwnFunctionAndMayStartAgain) {
  std::vector<nanoseconds> fired;
  timer again(loop_, [&] {
    EXPECT_FALSE(again.active());
    EXPECT_FALSE(again.cancel());
    fired.push_back(elapsed() / 1s * 1s);
    if (fired.size() < 3) again.start_after(1s);
  });
  again.start_after(1s);
  loop_.run_for(10s);
  EXPECT_THAT(fired, ElementsAre(1s, 2s, 3s));
}

TEST_F(Timer, RestartedWithoutDelayLetsTheLoopTurnInBetween) {
  int fired = 0;
  timer eager(loop_, [&] {
    ++fired;
    eager.start_after(0s);
  });
  eager.start_after(0s);
  for (int turn = 1; turn <= 5; ++turn) {
    loop_.poll();
    EXPECT_EQ(fired, turn);
  }
}

TEST_F(Timer, MayCancelOthersThatAreDueInTheSameTurn) {
  int fired = 0;
  std::vector<std::unique_ptr<timer>> timers;
  for (int i = 0; i < 3; ++i) {
    timers.push_back(std::make_unique<timer>(loop_, [&] {
      ++fired;
      for (auto& each : timers) each->cancel();
    }));
    timers.back()->start_after(1ms);
  }
  loop_.run_for(1s);
  EXPECT_EQ(fired, 1);
}

TEST_F(Timer, MayDestroyOthersThatAreDueInTheSameTurn) {
  auto second = std::make_unique<timer>(loop_, [] { FAIL(); });
  timer first(loop_, [&] { second.reset(); });
  first.start_after(1ms);
  second->start_after(1ms);
  loop_.run_for(1s);
  EXPECT_EQ(second, nullptr);
}

TEST_F(Timer, MayMoveOthersThatAreDueInTheSameTurn) {
  nanoseconds fired_after{};
  timer second(loop_, [&] { fired_after = elapsed(); });
  timer first(loop_, [&] { second.start_after(1h); });
  first.start_after(1ms);
  second.start_after(1ms);
  loop_.run_for(2h);
  EXPECT_GE(fired_after, 1h);
}

TEST_F(Timer, MayDestroyItselfInItsFunctionWhichGoesOn) {
  for (const bool periodic : {false, true}) {
    std::string after;
    std::unique_ptr<timer> self;
    self = std::make_unique<timer>(loop_, [&, text = std::string(100, 'x')] {
      self.reset();
      after = text;
    });
    periodic ? self->start_every(1ms) : self->start_after(1ms);
    loop_.run_for(5ms);
    EXPECT_EQ(after, std::string(100, 'x'));
    EXPECT_EQ(self, nullptr);
  }
}

TEST_F(Timer, PeriodicFiresOnceAPeriodWithoutDrift) {
  std::vector<nanoseconds> fired;
  timer ticker(loop_, [&] { fired.push_back(elapsed()); });
  ticker.start_every(10ms);
  loop_.run_for(10s + precision);
  ASSERT_EQ(fired.size(), 1000u);
  for (std::size_t n = 0; n < fired.size(); ++n) {
    const nanoseconds grid = 10ms * (n + 1);
    EXPECT_GE(fired[n], grid);
    EXPECT_LE(fired[n], grid + precision);
  }
}

TEST_F(Timer, PeriodicServedLateKeepsItsGrid) {
  std::vector<steady_time> deadlines;
  timer ticker(loop_, [&] {
    deadlines.push_back(ticker.deadline());
    virtual_time_.time.advance(4ms);  // a slow function
  });
  ticker.start_every(10ms);
  virtual_time_.time.advance(13ms);  // a late loop
  while (deadlines.size() < 3) loop_.run_once();
  EXPECT_THAT(deadlines, ElementsAre(start_ + 20ms, start_ + 30ms, start_ + 40ms));
}

TEST_F(Timer, PeriodicFiresMissedDeadlinesOnceAndGoesOnWithTheGrid) {
  int fired = 0;
  timer ticker(loop_, [&] { ++fired; });
  ticker.start_every(10ms);
  virtual_time_.time.advance(57ms);
  loop_.poll();
  loop_.poll();
  EXPECT_EQ(fired, 1);
  EXPECT_EQ(ticker.deadline(), start_ + 60ms);
}

TEST_F(Timer, PeriodicShorterThanItsOwnFunctionDoesNotStarveTheLoop) {
  int tasks = 0;
  timer ticker(loop_, [&] { virtual_time_.time.advance(1ms); });
  ticker.start_every(1ns);
  for (int i = 0; i < 10; ++i) {
    loop_.post([&] { ++tasks; });
    loop_.poll();
  }
  EXPECT_EQ(tasks, 10);
  EXPECT_LE(loop_.metrics().timers_fired, 10u);
}

TEST_F(Timer, PeriodicMayBeginAtAChosenTime) {
  std::vector<steady_time> deadlines;
  timer ticker(loop_, [&] { deadlines.push_back(ticker.deadline() - 10ms); });
  ticker.start_every(10ms, start_ + 3ms);
  loop_.run_for(30ms);
  EXPECT_THAT(deadlines, ElementsAre(start_ + 3ms, start_ + 13ms, start_ + 23ms));
}

TEST_F(Timer, PeriodicMayCancelItself) {
  int fired = 0;
  timer ticker(loop_, [&] {
    EXPECT_TRUE(ticker.active());
    if (++fired < 3) return;
    EXPECT_TRUE(ticker.cancel());
  });
  ticker.start_every(1ms);
  loop_.run_for(1s);
  EXPECT_EQ(fired, 3);
}

TEST_F(Timer, PeriodicMayBecomeOneShotAndBack) {
  int fired = 0;
  timer changing(loop_, [&] {
    if (++fired == 2) changing.start_after(1ms);
  });
  changing.start_every(1ms);
  loop_.run_for(1s);
  EXPECT_EQ(fired, 3);
  changing.start_after(1ms);
  changing.start_every(2ms);
  loop_.run_for(9ms);
  EXPECT_EQ(fired, 7);
}

TEST_F(Timer, CancelledPeriodicStartedOnceFiresOnce) {
  int fired = 0;
  timer once(loop_, [&] { ++fired; });
  once.start_every(1ms);
  once.cancel();
  once.start_after(1ms);
  loop_.run_for(1s);
  EXPECT_EQ(fired, 1);
}

TEST_F(Timer, RefusesAPeriodThatIsNotPositive) {
  timer refused(loop_, [] { FAIL(); });
  EXPECT_THROW(refused.start_every(0s), std::invalid_argument);
  EXPECT_THROW(refused.start_every(-1s), std::invalid_argument);
  EXPECT_THROW(refused.start_every(0s, start_), std::invalid_argument);
  EXPECT_FALSE(refused.active());
}

TEST_F(Timer, PeriodicReachesTheEndsOfTimeWithoutOverflow) {
  int fired = 0;
  timer century(loop_, [&] { ++fired; });
  century.start_every(nanoseconds::max(), start_ - 1ms);
  EXPECT_TRUE(loop_.poll());
  EXPECT_EQ(century.deadline(), steady_time::max());
  century.start_every(1s, steady_time::min());
  EXPECT_TRUE(loop_.poll());
  EXPECT_EQ(fired, 2);
  EXPECT_GT(century.deadline(), start_);
  EXPECT_LE(century.deadline(), start_ + 1s);
}

TEST_F(Timer, StartedByATaskOfTheLoop) {
  nanoseconds fired_after{};
  timer once(loop_, [&] { fired_after = elapsed(); });
  loop_.post([&] {
    virtual_time_.time.advance(5ms);  // the delay counts from the start, not from the turn's begin
    once.start_after(10ms);
  });
  loop_.run_for(1s);
  EXPECT_GE(fired_after, 15ms);
  EXPECT_LE(fired_after, 15ms + precision);
}

}  // namespace
}  // namespace timer_test

// SPDX-License-Identifier: Apache-2.0
// Tests of the timing wheel: tables of cases, the edges of every level, and random steps compared
// with a std::multimap as the model.
#include <gyre/base/timer_wheel.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

namespace gyre::detail {
namespace timer_wheel_test {
namespace {

using namespace std::chrono_literals;
using duration = steady_time::duration;

constexpr auto no_limit = std::numeric_limits<std::size_t>::max();
constexpr duration tick{1024};
constexpr steady_time epoch{};

struct alarm : timer_node {
  int id = 0;
};

int id_of(timer_node& timer) { return static_cast<alarm&>(timer).id; }

/// A wheel and alarms 0 … count-1; `advance` returns the ids that fired.
class TimerWheel : public ::testing::Test {
 protected:
  static constexpr int count = 200;

  TimerWheel() {
    for (int id = 0; id < count; ++id) alarms[static_cast<std::size_t>(id)].id = id;
  }

  alarm& at(int id) { return alarms[static_cast<std::size_t>(id)]; }

  std::vector<int> advance(steady_time until, std::size_t limit = no_limit) {
    std::vector<int> fired;
    const std::size_t n =
        wheel.advance(until, limit, [&](timer_node& timer) { fired.push_back(id_of(timer)); });
    EXPECT_EQ(n, fired.size());
    return fired;
  }

  using ids = std::vector<int>;
  std::array<alarm, count> alarms;
  timer_wheel wheel{epoch + 1h};
  const steady_time now = epoch + 1h;
};

TEST_F(TimerWheel, NewWheelIsEmptyAndNeedsNoWakeup) {
  EXPECT_TRUE(wheel.empty());
  EXPECT_EQ(wheel.size(), 0U);
  EXPECT_EQ(wheel.next_wakeup(), std::nullopt);
  EXPECT_EQ(advance(now + 1h), ids{});
  EXPECT_FALSE(at(0).linked());
}

TEST_F(TimerWheel, StartLinksCancelUnlinks) {
  EXPECT_FALSE(wheel.cancel(at(0)));
  EXPECT_FALSE(wheel.start(at(0), now + 1s));
  EXPECT_TRUE(at(0).linked());
  EXPECT_EQ(at(0).deadline(), now + 1s);
  EXPECT_EQ(wheel.size(), 1U);
  EXPECT_TRUE(wheel.cancel(at(0)));
  EXPECT_FALSE(at(0).linked());
  EXPECT_TRUE(wheel.empty());
  EXPECT_EQ(wheel.next_wakeup(), std::nullopt);
  EXPECT_EQ(advance(now + 1h), ids{});
}

TEST_F(TimerWheel, RestartReplacesTheDeadline) {
  wheel.start(at(0), now + 1s);
  EXPECT_TRUE(wheel.start(at(0), now + 2s));
  EXPECT_EQ(wheel.size(), 1U);
  EXPECT_EQ(advance(now + 1s + tick), ids{});
  EXPECT_EQ(advance(now + 2s + tick), ids{0});
  EXPECT_FALSE(at(0).linked());
}

TEST_F(TimerWheel, PastAndZeroDeadlinesFireAtTheNextAdvance) {
  wheel.start(at(0), now);
  wheel.start(at(1), now - 1s);
  wheel.start(at(2), steady_time{});
  wheel.start(at(3), steady_time::min());
  ASSERT_TRUE(wheel.next_wakeup().has_value());
  EXPECT_LE(*wheel.next_wakeup(), now);
  EXPECT_EQ(advance(now), (ids{3, 2, 1, 0}));
}

TEST_F(TimerWheel, EqualTimeMayBeGivenAgain) {
  wheel.start(at(0), now + 1ms);
  EXPECT_EQ(advance(now), ids{});
  EXPECT_EQ(advance(now), ids{});
  EXPECT_EQ(advance(now + 1ms + tick), ids{0});
  wheel.start(at(1), now + 1ms);
  EXPECT_EQ(advance(now + 1ms + tick), ids{1});
}

TEST_F(TimerWheel, TimeIsNeverSetBack) {
  advance(now + 1s);
  wheel.start(at(0), now + 1s - 1ms);
  EXPECT_EQ(advance(now), ids{0});
}

TEST_F(TimerWheel, FiresInOrderOfDeadlinesWithinOneTick) {
  const steady_time base = now + 1s;
  wheel.start(at(0), base + 300ns);
  wheel.start(at(1), base + 100ns);
  wheel.start(at(2), base + 200ns);
  wheel.start(at(3), base + 100ns);
  EXPECT_EQ(advance(now + 2s), (ids{1, 3, 2, 0}));
}

TEST_F(TimerWheel, EqualDeadlinesFireInOrderOfStarts) {
  ids expected;
  for (int i = 0; i < count; ++i) {
    const int id = i * 7 % count;
    wheel.start(at(id), now + 90min);
    expected.push_back(id);
    // Time passes between the starts, so that only some timers have been moved to lower levels.
    if (i % 20 == 0) {
      EXPECT_EQ(advance(now + std::chrono::minutes{8 * i / 20}), ids{});
    }
  }
  EXPECT_EQ(advance(now + 2h), expected);
}

TEST_F(TimerWheel, ManyTimersOfOneTickAreSorted) {
  ids expected;
  for (int i = 0; i < count; ++i)
    wheel.start(at(i * 13 % count), now + 1s + duration{i * 13 % count});
  for (int id = 0; id < count; ++id) expected.push_back(id);
  EXPECT_EQ(advance(now + 2s), expected);
}

TEST_F(TimerWheel, EdgesOfEveryLevelFireOnTimeAndNeverEarly) {
  // Deadlines around each power of two and each multiple of a level's width, seen from an even and
  // from an odd moment.
  for (const duration offset : {0ns, 1ns, 123456789ns}) {
    for (int bit = 0; bit < 61; ++bit) {
      for (const std::int64_t edge : {-1024, -1023, -1, 0, 1, 1023, 1024, 1025}) {
        const steady_time start = epoch + offset;
        const steady_time deadline = start + duration{std::int64_t{1} << bit} + duration{edge};
        timer_wheel one{start};
        alarm alarm;
        int fired = 0;
        const auto count_it = [&](timer_node&) { ++fired; };
        one.start(alarm, deadline);
        if (deadline > start) {
          one.advance(deadline - 1ns, no_limit, count_it);
          ASSERT_EQ(fired, 0) << "bit " << bit << " edge " << edge;
        }
        one.advance(std::max(start, deadline + tick - 1ns), no_limit, count_it);
        ASSERT_EQ(fired, 1) << "bit " << bit << " edge " << edge;
        ASSERT_TRUE(one.empty());
      }
    }
  }
}

TEST_F(TimerWheel, FollowingNextWakeupFiresEveryTimerWithinItsTick) {
  std::vector<steady_time> deadlines;
  for (int id = 0; id < count; ++id) {
    deadlines.push_back(now + duration{(std::int64_t{1} << id % 50) + id * 31});
    wheel.start(at(id), deadlines.back());
  }
  steady_time time = now;
  int wakeups = 0;
  while (const auto next = wheel.next_wakeup()) {
    ASSERT_TRUE(*next > time || wakeups == 0) << "a wake-up must lead on";
    time = std::max(time, *next);
    ++wakeups;
    for (const int id : advance(time)) {
      const steady_time deadline = deadlines[static_cast<std::size_t>(id)];
      EXPECT_LE(deadline, time);
      EXPECT_LT(time - deadline, tick);
    }
  }
  EXPECT_TRUE(wheel.empty());
  EXPECT_LE(wakeups, 2 * count);
}

TEST_F(TimerWheel, NextWakeupIsExactForALoneTimer) {
  for (const duration delay :
       {1ns, 1024ns, 300us + 0ns, 70ms + 0ns, 20s + 0ns, 2h + 0ns, 24h * 365 + 0ns}) {
    wheel.start(at(0), now + delay);
    ASSERT_TRUE(wheel.next_wakeup().has_value());
    EXPECT_GE(*wheel.next_wakeup(), now + delay);
    EXPECT_LT(*wheel.next_wakeup(), now + delay + tick);
  }
}

TEST_F(TimerWheel, FarthestDeadlineIsAcceptedAndNeverFires) {
  wheel.start(at(0), steady_time::max());
  wheel.start(at(1), steady_time::max() - 1h);
  EXPECT_EQ(advance(now + 24h * 365 * 100), ids{});
  EXPECT_LE(*wheel.next_wakeup(), steady_time::max() - 1h + tick);
  EXPECT_EQ(advance(steady_time::max() - 1h + tick), ids{1});
  EXPECT_EQ(wheel.next_wakeup(), steady_time::max());
  EXPECT_EQ(advance(steady_time::max()), ids{});
  EXPECT_TRUE(wheel.cancel(at(0)));
}

TEST_F(TimerWheel, TimePointsBeforeTheEpochKeepTheirOrder) {
  timer_wheel early{epoch - 1h};
  early.start(at(0), epoch - 30min);
  early.start(at(1), epoch - 40min);
  early.start(at(2), epoch + 1s);
  ids fired;
  const auto note = [&](timer_node& timer) { fired.push_back(id_of(timer)); };
  early.advance(epoch - 50min, no_limit, note);
  EXPECT_EQ(fired, ids{});
  early.advance(epoch, no_limit, note);
  EXPECT_EQ(fired, (ids{1, 0}));
  early.advance(epoch + 2s, no_limit, note);
  EXPECT_EQ(fired, (ids{1, 0, 2}));
}

TEST_F(TimerWheel, JumpOverAllLevelsFiresEverythingInOrder) {
  ids expected;
  for (int id = 0; id < 58; ++id) {
    wheel.start(at(57 - id), now + duration{std::int64_t{1} << (57 - id)});
    expected.push_back(id);
  }
  EXPECT_EQ(advance(now + duration{std::int64_t{1} << 58}), expected);
}

TEST_F(TimerWheel, WheelStartedAtTheEpochFiresOnTimeToo) {
  timer_wheel from_epoch;
  from_epoch.start(at(0), now + 1s);
  std::size_t fired = from_epoch.advance(now + 1s - 1ns, no_limit, [](timer_node&) {});
  EXPECT_EQ(fired, 0U);
  fired = from_epoch.advance(now + 1s + tick, no_limit, [](timer_node&) {});
  EXPECT_EQ(fired, 1U);
}

TEST_F(TimerWheel, LimitLeavesTheRestInOrderForTheNextAdvance) {
  ids all;
  for (int id = 0; id < count; ++id)
    wheel.start(at(count - 1 - id), now + duration{(count - 1 - id) * 777});
  while (true) {
    const ids some = advance(now + 1s, 7);
    EXPECT_LE(some.size(), 7U);
    if (some.empty()) break;
    all.insert(all.end(), some.begin(), some.end());
    if (!wheel.empty()) {
      EXPECT_LE(*wheel.next_wakeup(), now + 1s) << "what is left over is overdue";
    }
  }
  ids expected;
  for (int id = 0; id < count; ++id) expected.push_back(id);
  EXPECT_EQ(all, expected);
}

TEST_F(TimerWheel, LimitOfZeroFiresNothing) {
  wheel.start(at(0), now);
  EXPECT_EQ(advance(now + 1s, 0), ids{});
  EXPECT_EQ(advance(now + 1s, 1), ids{0});
}

TEST_F(TimerWheel, OverdueTimerThatRestartsItselfDoesNotStarveTheRest) {
  for (int id = 0; id < 5; ++id) wheel.start(at(id), now + duration{id * 100'000});
  wheel.start(at(5), steady_time{});
  std::set<int> seen;
  for (int turn = 0; turn < 40; ++turn) {
    wheel.advance(now + 1s, 1, [&](timer_node& timer) {
      seen.insert(id_of(timer));
      if (id_of(timer) == 5) wheel.start(timer, steady_time{});
    });
  }
  EXPECT_EQ(seen, (std::set<int>{0, 1, 2, 3, 4, 5}));
  wheel.cancel(at(5));
}

TEST_F(TimerWheel, TimersStartedByACallWaitForTheNextAdvance) {
  int calls = 0;
  const auto again = [&](timer_node& timer) {
    ++calls;
    EXPECT_FALSE(timer.linked());
    EXPECT_FALSE(wheel.start(timer, now + 1ms * calls));
    wheel.start(at(1), now);
  };
  wheel.start(at(0), now);
  EXPECT_EQ(wheel.advance(now + 1s, no_limit, again), 1U);
  EXPECT_EQ(wheel.size(), 2U);
  EXPECT_LE(*wheel.next_wakeup(), now + 1s);
  EXPECT_EQ(wheel.advance(now + 1s, no_limit, again), 2U);
}

TEST_F(TimerWheel, ACallMayCancelWhatHasExpiredBesideIt) {
  for (int id = 0; id < 6; ++id) wheel.start(at(id), now + duration{id * 100});
  ids fired;
  wheel.advance(now + 1s, no_limit, [&](timer_node& timer) {
    fired.push_back(id_of(timer));
    EXPECT_FALSE(wheel.cancel(timer)) << "it is not linked any more";
    EXPECT_EQ(wheel.cancel(at(1)), fired.size() == 1);
    wheel.cancel(at(5));
    if (id_of(timer) == 2) wheel.start(at(3), now + 2s);
  });
  EXPECT_EQ(fired, (ids{0, 2, 4}));
  EXPECT_EQ(advance(now + 2s + tick), ids{3});
}

TEST_F(TimerWheel, ACallMayDestroyItsTimerAndOthers) {
  auto own = std::make_unique<alarm>();
  auto other = std::make_unique<alarm>();
  wheel.start(*own, now);
  wheel.start(*other, now + 1ms);
  EXPECT_EQ(wheel.advance(now + 1s, no_limit,
                          [&](timer_node&) {
                            own.reset();
                            wheel.cancel(*other);
                            other.reset();
                          }),
            1U);
  EXPECT_TRUE(wheel.empty());
}

TEST_F(TimerWheel, ACallMayThrowAndTheRestFiresNextTime) {
  for (int id = 0; id < 3; ++id) wheel.start(at(id), now + duration{id});
  EXPECT_THROW(wheel.advance(now + 1s, no_limit, [](timer_node&) { throw 1; }), int);
  EXPECT_EQ(advance(now + 1s), (ids{1, 2}));
}

TEST_F(TimerWheel, AdvanceMayBeNestedInACall) {
  for (int id = 0; id < 4; ++id) wheel.start(at(id), now + duration{id * 5000});
  ids fired;
  wheel.advance(now + 1s, no_limit, [&](timer_node& timer) {
    fired.push_back(id_of(timer));
    if (fired.size() == 1) {
      wheel.advance(now + 2s, 2, [&](timer_node& inner) { fired.push_back(id_of(inner)); });
    }
  });
  EXPECT_EQ(fired, (ids{0, 1, 2, 3}));
}

TEST_F(TimerWheel, DelaysThatBeginTogetherEndTogether) {
  wheel.start_after(at(1), 10ms);
  wheel.start_after(at(0), 20ms);
  wheel.start_after(at(2), 10ms);
  EXPECT_TRUE(wheel.has_delays_to_begin());
  EXPECT_EQ(wheel.size(), 3U);
  EXPECT_EQ(advance(now + 1s), ids{}) << "none has begun";
  wheel.begin_delays(now + 2s);
  EXPECT_FALSE(wheel.has_delays_to_begin());
  EXPECT_EQ(at(1).deadline(), now + 2s + 10ms);
  EXPECT_EQ(advance(now + 2s + 10ms - tick), ids{});
  EXPECT_EQ(advance(now + 2s + 10ms + tick), (ids{1, 2}));
  EXPECT_EQ(advance(now + 2s + 20ms + tick), ids{0});
}

TEST_F(TimerWheel, DelaysOfNothingEndInTheNextAdvance) {
  wheel.start_after(at(0), 0ns);
  wheel.start_after(at(1), -1h);
  wheel.begin_delays(now);
  EXPECT_EQ(advance(now), (ids{0, 1}));
}

TEST_F(TimerWheel, TimersWhoseDelayHasNotBegunRestartAndEnd) {
  for (int id = 0; id < 3; ++id) wheel.start_after(at(id), 1ms);
  EXPECT_TRUE(at(0).linked());
  EXPECT_TRUE(wheel.cancel(at(0)));
  EXPECT_TRUE(wheel.start(at(1), now + 2ms));
  wheel.start_after(at(2), 3ms);
  EXPECT_EQ(wheel.size(), 2U);
  wheel.begin_delays(now);
  EXPECT_FALSE(at(0).linked());
  EXPECT_EQ(advance(now + 2ms + tick), ids{1});
  EXPECT_EQ(advance(now + 3ms + tick), ids{2});
  EXPECT_TRUE(wheel.empty());
}

TEST_F(TimerWheel, DestroyedWheelLetsGoOfItsTimers) {
  {
    timer_wheel shortlived{now};
    shortlived.start_after(at(5), 1ms);
    shortlived.start(at(0), now - 1s);
    shortlived.start(at(1), now + 1ms);
    shortlived.start(at(2), now + 1ms);
    shortlived.start(at(3), now + 1h);
    shortlived.start(at(4), steady_time::max());
    shortlived.advance(now + 1s, 1, [](timer_node&) {});
  }
  for (int id = 0; id < 6; ++id) EXPECT_FALSE(at(id).linked()) << id;
}

/// Random starts, restarts, cancels and advances, also from within calls, compared with a simple
/// reference model.
class TimerWheelModel : public ::testing::TestWithParam<unsigned> {
 protected:
  static constexpr int count = 2000;
  static constexpr int steps = 500'000;

  struct modelled : timer_node {
    int id = 0;
    std::uint64_t started = 0;
    bool late = false;
    std::multimap<steady_time, int>::iterator place;
  };

  // The end of the tick of `time`: the first multiple of 1024 ns that is not before `time`.
  static steady_time tick_end(steady_time time) {
    if (time > steady_time::max() - tick) return steady_time::max();
    return epoch + (time.time_since_epoch() + tick - 1ns) / tick * tick;
  }

  void start(modelled& timer, steady_time deadline) {
    forget(timer);
    timer.started = ++clock;
    timer.late = tick_end(deadline) <= seen;
    if (timer.late) {
      late.insert({deadline, timer.id});
    } else {
      timer.place = on_time.insert({deadline, timer.id});
    }
    wheel.start(timer, deadline);
  }

  void cancel(modelled& timer) {
    const bool linked = timer.linked();
    forget(timer);
    ASSERT_EQ(wheel.cancel(timer), linked);
  }

  void forget(modelled& timer) {
    if (!timer.linked()) return;
    if (timer.late) {
      late.erase({timer.deadline(), timer.id});
    } else {
      on_time.erase(timer.place);
    }
  }

  steady_time random_deadline() {
    const auto kind = random() % 16;
    if (kind == 0) return steady_time::max() - duration{static_cast<std::int64_t>(random() % 3)};
    if (kind == 1) return seen - std::min(seen.time_since_epoch(), spread(40));
    if (kind == 2) return tick_end(seen + spread(34));
    return seen + spread(kind < 12 ? 30 : 56);
  }

  // A duration whose magnitude is as random as its digits.
  duration spread(unsigned bits) {
    return duration{static_cast<std::int64_t>(random() % (std::uint64_t{1} << random() % bits))};
  }

  void random_step() {
    modelled& timer = timers[random() % count];
    if (random() % 3 == 0) {
      cancel(timer);
    } else {
      start(timer, random_deadline());
    }
  }

  // Checks that it was the timer's turn to fire, and erases the timer from the model.
  void check_fired(modelled& timer, std::uint64_t began) {
    ASSERT_FALSE(timer.linked());
    ASSERT_LE(timer.deadline(), seen) << "early";
    ASSERT_LE(timer.started, began) << "started within this advance";
    if (timer.late) {
      ASSERT_EQ(late.erase({timer.deadline(), timer.id}), 1U);
      ASSERT_TRUE(on_time.empty() || on_time.begin()->first > timer.deadline());
    } else {
      ASSERT_EQ(on_time.begin()->second, timer.id) << "out of order";
      on_time.erase(timer.place);
    }
  }

  std::size_t overdue() const {
    std::size_t n = late.size();
    for (const auto& [deadline, id] : on_time) {
      if (tick_end(deadline) > seen) break;
      ++n;
    }
    return n;
  }

  void advance(duration by, std::size_t limit, bool busy_calls) {
    seen += by;
    const std::uint64_t began = clock;
    const std::size_t expected = std::min(limit, overdue());
    const std::size_t fired = wheel.advance(seen, limit, [&](timer_node& node) {
      check_fired(static_cast<modelled&>(node), began);
      if (busy_calls && random() % 4 == 0) random_step();
    });
    if (busy_calls) {
      ASSERT_LE(fired, expected);
      if (fired < limit) {
        for (const auto& [deadline, id] : late)
          ASSERT_GT(timers[static_cast<std::size_t>(id)].started, began);
      }
    } else {
      ASSERT_EQ(fired, expected);
    }
  }

  void check_wakeup() {
    ASSERT_EQ(wheel.size(), late.size() + on_time.size());
    if (wheel.has_overdue_timers()) {
      ASSERT_GT(overdue(), 0U);
    }
    auto next = wheel.next_wakeup();
    ASSERT_EQ(next.has_value(), !wheel.empty());
    if (!next) return;
    if (overdue() > 0) {
      ASSERT_LE(*next, seen);
      return;
    }
    if (*next <= seen) {
      // A limit stopped the wheel, which must advance before its next deadline is known.
      advance(0ns, no_limit, false);
      next = wheel.next_wakeup();
    }
    ASSERT_GT(*next, seen);
    ASSERT_LE(*next, tick_end(on_time.begin()->first));
  }

  std::mt19937_64 random{GetParam()};
  std::vector<modelled> timers = std::vector<modelled>(count);
  std::multimap<steady_time, int> on_time;
  std::set<std::pair<steady_time, int>> late;
  std::uint64_t clock = 0;
  steady_time seen = epoch + duration{1234567};
  timer_wheel wheel{seen};
};

TEST_P(TimerWheelModel, RandomStepsAgreeWithAMultimap) {
  for (int id = 0; id < count; ++id) timers[static_cast<std::size_t>(id)].id = id;
  for (int step = 0; step < steps && !HasFatalFailure(); ++step) {
    switch (random() % 8) {
      case 0: advance(spread(22), no_limit, false); break;
      case 1: advance(spread(random() % 64 == 0 ? 45 : 18), 1 + random() % 8, true); break;
      case 2:
        if (const auto next = wheel.next_wakeup()) {
          // Advances to near wake-ups only; far ones would exhaust the range of a 64-bit time.
          if (*next - seen < 1min)
            advance(std::max(0ns, *next - seen), no_limit, random() % 2 == 0);
        }
        break;
      default: random_step();
    }
    if (step % 16 == 0) check_wakeup();
  }
  for (modelled& timer : timers) cancel(timer);
  ASSERT_TRUE(wheel.empty());
  ASSERT_EQ(wheel.next_wakeup(), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Seeds, TimerWheelModel, ::testing::Values(1U, 2U, 3U, 4U, 5U, 6U));

}  // namespace
}  // namespace timer_wheel_test
}  // namespace gyre::detail

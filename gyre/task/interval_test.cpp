// SPDX-License-Identifier: Apache-2.0
// Tests of intervals, in virtual time.
#include <gyre/task/interval.hpp>

#include <gyre/task/as_expected.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace interval_test {
namespace {

using namespace std::chrono_literals;
using gyre::inplace_stop_source;
using gyre::interval;
using gyre::missed_ticks;
using gyre::sleep_for;
using gyre::steady_time;
using gyre::task;
using gyre::with_timeout;
using std::chrono::nanoseconds;
using testing::ElementsAre;

// A plain number does not convert: intended milliseconds must not become nanoseconds.
template <class Period>
concept is_period = requires(Period period) { interval(period); };
static_assert(is_period<nanoseconds> && is_period<std::chrono::hours>);
static_assert(!is_period<int> && !is_period<long>);

// So with_timeout(every.tick(), …) needs no coroutine of its own.
static_assert(gyre::detail::single_operation<interval::tick_operation>);

class Interval : public testing::Test {
 public:
  template <gyre::awaitable Awaitable>
  gyre::task_result_t<Awaitable> run(Awaitable work) {
    return gyre::testing::run_in_virtual_time(executor_, std::move(work));
  }
  // Rounded down: a timer may fire some 1.024 µs late.
  std::chrono::milliseconds now() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(executor_.now() - start_);
  }
  std::chrono::milliseconds since_start(steady_time moment) const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(moment - start_);
  }
  // Awaits a tick of every 10 ms, works until 35 ms, and awaits further ticks.
  task<> misses(missed_ticks policy) {
    interval every(10ms, {.missed = policy, .first_delay = 10ms});
    const steady_time begin = executor_.now();
    co_await start_schedule(every);
    co_await gyre::sleep_until(begin + 35ms);
    co_await note_ticks(every, 4);
  }
  static task<> start_schedule(interval& every) {
    const auto ticked = co_await gyre::as_expected(with_timeout(every.tick(), 0ns));
    EXPECT_EQ(ticked.error(), std::errc::timed_out);
  }
  task<> note_ticks(interval& every, int count) {
    for (int i = 0; i < count; ++i) {
      const steady_time due = co_await every.tick();
      given_.push_back(now());
      due_.push_back(since_start(due));
    }
  }

  gyre::testing::manual_executor executor_;
  const steady_time start_ = executor_.now();
  std::vector<std::chrono::milliseconds> given_;
  std::vector<std::chrono::milliseconds> due_;
};

TEST_F(Interval, TicksAtOnceAndThenOncePerPeriod) {
  interval every(10ms);
  run(note_ticks(every, 4));
  EXPECT_THAT(given_, ElementsAre(0ms, 10ms, 20ms, 30ms));
  EXPECT_THAT(due_, ElementsAre(0ms, 10ms, 20ms, 30ms));
}

TEST_F(Interval, MayBeginWithAPeriod) {
  interval every(10ms, {.first_delay = 10ms});
  run(note_ticks(every, 3));
  EXPECT_THAT(given_, ElementsAre(10ms, 20ms, 30ms));
}

TEST_F(Interval, WorkBetweenTheTicksDoesNotShiftThem) {
  const auto works = [](Interval& test) -> task<> {
    interval every(10ms);
    for (int i = 0; i < 3; ++i) {
      co_await test.note_ticks(every, 1);
      co_await sleep_for(7ms);
    }
  };
  run(works(*this));
  EXPECT_THAT(given_, ElementsAre(0ms, 10ms, 20ms));
}

TEST_F(Interval, DoesNotDriftOverManyPeriods) {
  const auto counts = [](Interval& test) -> task<> {
    // Not a multiple of the timers' resolution, which every tick is late by.
    interval every(333'333ns);
    for (int i = 0; i <= 30'000; ++i) {
      const steady_time due = co_await every.tick();
      EXPECT_EQ(due, test.start_ + i * 333'333ns);
      EXPECT_LT(test.executor_.now(), due + 2us);
    }
  };
  run(counts(*this));
}

TEST_F(Interval, SkipLeavesOutTheMissedTicks) {
  run(misses(missed_ticks::skip));
  EXPECT_THAT(given_, ElementsAre(35ms, 40ms, 50ms, 60ms));
  EXPECT_THAT(due_, ElementsAre(10ms, 40ms, 50ms, 60ms));
}

TEST_F(Interval, BurstMakesUpForTheMissedTicks) {
  run(misses(missed_ticks::burst));
  EXPECT_THAT(given_, ElementsAre(35ms, 35ms, 35ms, 40ms));
  EXPECT_THAT(due_, ElementsAre(10ms, 20ms, 30ms, 40ms));
}

TEST_F(Interval, DelayStartsANewScheduleAtTheLateTick) {
  run(misses(missed_ticks::delay));
  EXPECT_THAT(given_, ElementsAre(35ms, 45ms, 55ms, 65ms));
  EXPECT_THAT(due_, ElementsAre(10ms, 45ms, 55ms, 65ms));
}

TEST_F(Interval, SkipsByDefault) { EXPECT_EQ(gyre::interval_options{}.missed, missed_ticks::skip); }

TEST_F(Interval, OneTickInTimeDoesNotMakeTheNextOneLate) {
  const auto ticks_and_works = [](Interval& test) -> task<> {
    interval every(10ms, {.missed = missed_ticks::delay});
    co_await test.note_ticks(every, 1);
    co_await sleep_for(9ms);
    co_await test.note_ticks(every, 2);
  };
  run(ticks_and_works(*this));
  EXPECT_THAT(due_, ElementsAre(0ms, 10ms, 20ms));
}

TEST_F(Interval, ResetWaitsForAWholePeriod) {
  const auto resets = [](Interval& test) -> task<> {
    interval every(10ms);
    co_await test.note_ticks(every, 2);
    co_await sleep_for(7ms);
    every.reset();
    co_await test.note_ticks(every, 2);
    every.reset_at(test.start_ + 100ms);
    co_await test.note_ticks(every, 2);
  };
  run(resets(*this));
  EXPECT_THAT(given_, ElementsAre(0ms, 10ms, 27ms, 37ms, 100ms, 110ms));
}

TEST_F(Interval, AStoppedTickIsGivenByTheNext) {
  interval every(10ms, {.first_delay = 10ms});
  inplace_stop_source source;
  gyre::spawn(executor_, note_ticks(every, 1), {.stop = source.get_token()});
  executor_.run_all();
  executor_.advance(4ms);
  source.request_stop();
  executor_.run_all();
  EXPECT_THAT(given_, ElementsAre());
  EXPECT_EQ(executor_.timers_pending(), 0);
  run(note_ticks(every, 2));
  EXPECT_THAT(due_, ElementsAre(10ms, 20ms));
}

TEST_F(Interval, ATimeoutLosesNoTick) {
  const auto polls = [](Interval& test) -> task<> {
    interval every(10ms);
    co_await test.note_ticks(every, 1);
    for (int i = 0; i < 3; ++i) {
      const auto ticked = co_await gyre::as_expected(with_timeout(every.tick(), 3ms));
      EXPECT_FALSE(ticked.has_value());
    }
    co_await test.note_ticks(every, 1);
  };
  run(polls(*this));
  EXPECT_THAT(due_, ElementsAre(0ms, 10ms));
}

TEST_F(Interval, DoesNotTickAfterTheStopEvenIfOneIsDue) {
  interval every(10ms);
  inplace_stop_source source;
  source.request_stop();
  gyre::spawn(executor_, note_ticks(every, 1), {.stop = source.get_token()});
  executor_.advance(1h);
  EXPECT_THAT(given_, ElementsAre());
}

TEST_F(Interval, TickAndStopAtOnceGiveTheTickOrLeaveItToTheNext) {
  for (int round = 0; round < 200; ++round) {
    interval every(1us, {.first_delay = 1us});
    inplace_stop_source source;
    given_.clear();
    due_.clear();
    const steady_time first = executor_.now() + 1us;
    gyre::spawn(executor_, note_ticks(every, 1), {.stop = source.get_token()});
    executor_.run_all();
    std::jthread stopper([&] { source.request_stop(); });
    executor_.advance(2us);
    stopper.join();
    executor_.run_all();
    const auto next = [](interval& from) -> task<steady_time> { co_return co_await from.tick(); };
    const steady_time due = run(next(every));
    if (given_.empty()) {
      EXPECT_EQ(due, first);
    } else {
      EXPECT_GT(due, first);
    }
  }
}

TEST_F(Interval, ManyOverdueTicksLetOthersRun) {
  bool is_done = false;
  const auto ticks = [](interval& every, const bool& done) -> task<> {
    for (int i = 0; i < 1000 && !done; ++i) static_cast<void>(co_await every.tick());
    EXPECT_TRUE(done);
  };
  const auto other = [](bool& done) -> task<> {
    co_await sleep_for(0ns);
    done = true;
  };
  interval every(1ms, {.missed = missed_ticks::burst});
  every.reset_at(start_ - 1h);
  gyre::spawn(executor_, ticks(every, is_done));
  gyre::spawn(executor_, other(is_done));
  executor_.advance(1ms);
  EXPECT_TRUE(is_done);
}

TEST_F(Interval, MayBeDestroyedWhileATickIsAwaited) {
  gyre::task_context context;
  context.where = &executor_;
  interval every(1s, {.first_delay = 1s});
  {
    task<> work = note_ticks(every, 1);
    struct starter : gyre::operation {
      starter(task<>& starts, gyre::task_context& in)
          : operation([](operation& self) {
              auto& op = static_cast<starter&>(self);
              gyre::detail::task_access::state(op.work).start(op.context);
            }),
            work(starts),
            context(in) {}
      task<>& work;
      gyre::task_context& context;
    } start(work, context);
    executor_.post(start);
    executor_.run_all();
    EXPECT_EQ(executor_.timers_pending(), 1);
  }
  EXPECT_EQ(executor_.timers_pending(), 0);
  run(note_ticks(every, 1));
  EXPECT_THAT(due_, ElementsAre(1000ms));
}

TEST_F(Interval, TheLongestPeriodDoesNotWrapAround) {
  interval every(nanoseconds::max());
  run(note_ticks(every, 1));
  EXPECT_THAT(given_, ElementsAre(0ms));
  gyre::spawn(executor_, note_ticks(every, 1), {});
  executor_.advance(10'000h);
  EXPECT_EQ(given_.size(), 1);
  executor_.advance(nanoseconds::max());
}

TEST_F(Interval, APeriodThatIsNotPositiveIsAnError) {
  for (const nanoseconds wrong : {0ns, -1ns, nanoseconds::min()}) {
    try {
      interval every(wrong);
      ADD_FAILURE() << "took " << wrong.count();
    } catch (const std::invalid_argument& error) {
      EXPECT_TRUE(std::string_view(error.what()).contains(std::to_string(wrong.count())))
          << error.what();
    }
  }
  EXPECT_THROW(interval(1s, {.first_delay = -1ns}), std::invalid_argument);
}

TEST_F(Interval, OnExecutorsWithoutTimersIsNotSupported) {
  const auto ticks = []() -> task<> {
    interval every(1s);
    static_cast<void>(co_await every.tick());
  };
  try {
    gyre::sync_wait(ticks());
    ADD_FAILURE() << "ticked";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::operation_not_supported);
    EXPECT_TRUE(std::string_view(error.what()).contains("gyre::interval")) << error.what();
  }
}

}  // namespace
}  // namespace interval_test

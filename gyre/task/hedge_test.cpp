// SPDX-License-Identifier: Apache-2.0
// Tests of hedged requests, in virtual time.
#include <gyre/task/hedge.hpp>

#include <gyre/task/schedule.hpp>
#include <gyre/task/shielded.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace hedge_test {
namespace {

using namespace std::chrono_literals;
using gyre::hedge;
using gyre::inplace_stop_source;
using gyre::sleep_for;
using gyre::task;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using testing::ElementsAre;

// An attempt waits, then succeeds or fails.
struct script {
  nanoseconds delay;
  bool succeeds = true;
};

class Hedge : public testing::Test {
 public:
  template <gyre::awaitable Awaitable>
  gyre::task_result_t<Awaitable> run(Awaitable work) {
    return gyre::testing::run_in_virtual_time(executor_, std::move(work));
  }
  task<std::size_t> attempt(std::size_t number, script does) {
    started_.push_back(now());
    struct at_end {
      std::size_t& ended;
      ~at_end() { ++ended; }
    } const count{ended_};
    if (does.delay > 0ns) co_await sleep_for(does.delay);
    if (!does.succeeds) throw std::runtime_error("attempt " + std::to_string(number));
    co_return number;
  }
  auto following(std::vector<script> scripts) {
    return [this, scripts = std::move(scripts)](std::size_t number) {
      return attempt(number, scripts.at(number));
    };
  }
  milliseconds now() const {
    return std::chrono::duration_cast<milliseconds>(executor_.now() - start_);
  }

  gyre::testing::manual_executor executor_;
  const gyre::steady_time start_ = executor_.now();
  std::vector<milliseconds> started_;
  std::size_t ended_ = 0;
};

TEST_F(Hedge, StartsOneAttemptIfThatIsFast) {
  EXPECT_EQ(run(hedge(following({{4ms}}), {.delay = 5ms, .attempts = 3})), 0);
  EXPECT_THAT(started_, ElementsAre(0ms));
  EXPECT_LT(now(), 5ms);
  EXPECT_EQ(executor_.timers_pending(), 0);
}

TEST_F(Hedge, StartsAnotherAttemptAfterTheDelay) {
  EXPECT_EQ(run(hedge(following({{1h}, {1ms}}), {.delay = 5ms})), 1);
  EXPECT_THAT(started_, ElementsAre(0ms, 5ms));
  EXPECT_EQ(ended_, 2) << "the slow one is stopped and awaited";
  EXPECT_LT(now(), 1h);
  EXPECT_EQ(executor_.timers_pending(), 0);
}

TEST_F(Hedge, AnEarlierAttemptMayStillWin) {
  EXPECT_EQ(run(hedge(following({{7ms}, {1h}}), {.delay = 5ms})), 0);
  EXPECT_EQ(ended_, 2);
}

TEST_F(Hedge, StartsNoMoreAttemptsThanItMay) {
  EXPECT_EQ(run(hedge(following({{1h}, {1h}, {50ms}}), {.delay = 5ms, .attempts = 3})), 2);
  EXPECT_THAT(started_, ElementsAre(0ms, 5ms, 10ms));
}

TEST_F(Hedge, AFailureStartsTheNextAttemptAtOnce) {
  EXPECT_EQ(run(hedge(following({{2ms, false}, {20ms}, {1h}}), {.delay = 5ms, .attempts = 3})), 1);
  EXPECT_THAT(started_, ElementsAre(0ms, 2ms, 7ms))
      << "and the delay begins anew with that attempt";
}

TEST_F(Hedge, TheFailureOfAnEarlierAttemptDoesNotHurryTheNext) {
  EXPECT_EQ(run(hedge(following({{7ms, false}, {1h}, {1ms}}), {.delay = 5ms, .attempts = 3})), 2);
  EXPECT_THAT(started_, ElementsAre(0ms, 5ms, 10ms));
}

TEST_F(Hedge, AttemptsThatFailAtOnceFollowEachOther) {
  EXPECT_EQ(
      run(hedge(following({{0ms, false}, {0ms, false}, {0ms}}), {.delay = 5ms, .attempts = 3})), 2);
  EXPECT_THAT(started_, ElementsAre(0ms, 0ms, 0ms));
}

TEST_F(Hedge, ThrowsTheLastErrorIfAllFail) {
  try {
    run(hedge(following({{20ms, false}, {1ms, false}}), {.delay = 5ms}));
    ADD_FAILURE() << "succeeded";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string_view(error.what()), "attempt 0");
  }
  EXPECT_EQ(ended_, 2);
  EXPECT_EQ(executor_.timers_pending(), 0);
}

TEST_F(Hedge, AnExceptionOfTheFunctionIsTheFailureOfItsAttempt) {
  const auto throws_first = [this](std::size_t number) -> task<std::size_t> {
    if (number == 0) throw std::runtime_error("no attempt");
    return attempt(number, {1ms});
  };
  EXPECT_EQ(run(hedge(throws_first, {.delay = 5ms})), 1);
  EXPECT_THAT(started_, ElementsAre(0ms));
  const auto throws_always = []() -> task<int> { throw std::runtime_error("no attempt"); };
  EXPECT_THROW(run(hedge(throws_always, {.delay = 5ms, .attempts = 4})), std::runtime_error);
  const auto gives_none = [](std::size_t) { return task<int>(); };
  EXPECT_THROW(run(hedge(gives_none, {.delay = 5ms})), std::logic_error);
}

TEST_F(Hedge, TakesFunctionsWithoutAnArgumentAndOtherAwaitables) {
  int calls = 0;
  const auto sleeps = [&] {
    ++calls;
    return sleep_for(20ms);
  };
  run(hedge(sleeps, {.delay = 5ms, .attempts = 2}));
  EXPECT_EQ(calls, 2);
}

TEST_F(Hedge, IsStoppedAsAWhole) {
  inplace_stop_source source;
  bool stopped = false;
  const auto notes = [](task<std::size_t> work, bool& by_stop) -> task<> {
    try {
      static_cast<void>(co_await std::move(work));
    } catch (const gyre::operation_cancelled&) {
      by_stop = true;
    }
  };
  gyre::spawn(executor_,
              notes(hedge(following({{1h}, {1h}, {1h}}), {.delay = 5ms, .attempts = 3}), stopped),
              {.stop = source.get_token()});
  executor_.run_all();
  executor_.advance(7ms);
  source.request_stop();
  executor_.run_all();
  EXPECT_TRUE(stopped);
  EXPECT_THAT(started_, ElementsAre(0ms, 5ms));
  EXPECT_EQ(ended_, 2);
  EXPECT_EQ(executor_.timers_pending(), 0);
}

TEST_F(Hedge, SuccessAndDelayAtOnceGiveTheResult) {
  EXPECT_EQ(run(hedge(following({{5ms}, {1h}}), {.delay = 5ms})), 0);
  EXPECT_LE(started_.size(), 2);
  EXPECT_EQ(ended_, started_.size());
}

TEST_F(Hedge, AwaitsAnAttemptThatIgnoresTheStop) {
  bool ended = false;
  const auto stubborn_first = [&](std::size_t number) -> task<int> {
    if (number == 1) co_return 1;
    try {
      co_await sleep_for(1h);
    } catch (const gyre::operation_cancelled&) {  // the coroutine continues
    }
    co_await gyre::shielded(gyre::yield());
    ended = true;
    co_return 0;
  };
  EXPECT_EQ(run(hedge(stubborn_first, {.delay = 5ms})), 1);
  EXPECT_TRUE(ended);
}

TEST_F(Hedge, MayBeDestroyedWhileItWaits) {
  gyre::task_context context;
  context.where = &executor_;
  {
    auto work = hedge(following({{1h}, {1h}}), {.delay = 5ms});
    struct starter : gyre::operation {
      starter(decltype(work)& starts, gyre::task_context& in)
          : operation([](operation& self) {
              auto& op = static_cast<starter&>(self);
              gyre::detail::task_access::state(op.started).start(op.context);
            }),
            started(starts),
            context(in) {}
      decltype(work)& started;
      gyre::task_context& context;
    } start(work, context);
    executor_.post(start);
    executor_.run_all();
    EXPECT_EQ(executor_.timers_pending(), 2);
  }
  EXPECT_EQ(ended_, 1);
  EXPECT_EQ(executor_.timers_pending(), 0);
}

TEST_F(Hedge, OptionsThatMakeNoSenseAreAnError) {
  const auto none = [] { return task<>(); };
  EXPECT_THROW(static_cast<void>(hedge(none, {})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(hedge(none, {.delay = -1ns})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(hedge(none, {.delay = 1ns, .attempts = 0})),
               std::invalid_argument);
}

TEST_F(Hedge, OnExecutorsWithoutTimersIsNotSupported) {
  try {
    gyre::sync_wait(hedge([] { return sleep_for(1s); }, {.delay = 1s}));
    ADD_FAILURE() << "ran";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::operation_not_supported);
    EXPECT_TRUE(std::string_view(error.what()).contains("gyre::hedge")) << error.what();
  }
}

}  // namespace
}  // namespace hedge_test

// SPDX-License-Identifier: Apache-2.0
// Tests of a loop's wait: a loop with busy descriptors polls instead of falling asleep; busy_poll
// ends at an event, and is given up when no events come.
#include <gyre/exec/loop.hpp>

#include <gyre/exec/poller.hpp>
#include <gyre/exec/timer.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

namespace event_loop_busy_poll_test {
namespace {

using namespace std::chrono_literals;
using gyre::steady_time;

// A poller with one descriptor and scripted events; each poll takes a microsecond, each sleep lasts
// until its deadline or, without one, a millisecond.
class scripted_poller final : public gyre::poller {
 public:
  std::size_t polls = 0;
  std::size_t sleeps = 0;
  // Called at each poll: whether there is an event.
  gyre::move_only_function<bool()> on_poll = [] { return false; };
  // Called at each sleep, which ends with an event.
  gyre::move_only_function<void()> on_sleep = [] {};
  std::size_t descriptors = 1;

  steady_time now() const noexcept override { return now_; }
  std::size_t wait(steady_time deadline) override {
    if (deadline == steady_time::min()) {
      ++polls;
      now_ += 1us;
      found_ = on_poll();
    } else {
      ++sleeps;
      on_sleep();
      now_ = deadline == steady_time::max() ? now_ + 1ms : std::max(now_, deadline);
      found_ = true;
    }
    return found_ ? 1 : 0;
  }
  void complete(std::size_t& completed) override { completed += std::exchange(found_, false); }
  void wake() noexcept override {}
  void watch(gyre::readiness_operation&, gyre::readiness, gyre::trigger) override {}
  void rewatch(gyre::readiness_operation&, gyre::readiness, gyre::trigger) override {}
  void unwatch(gyre::readiness_operation&) noexcept override {}
  std::size_t watched() const noexcept override { return descriptors; }
  void after_fork() override {}
  const char* name() const noexcept override { return "scripted"; }

 private:
  steady_time now_{1h};
  bool found_ = false;
};

struct scripted_loop {
  explicit scripted_loop(std::chrono::nanoseconds busy_poll = 0ns)
      : scripted_loop(busy_poll, std::make_unique<scripted_poller>()) {}

  // Runs `times` turns, each of which must do some work.
  void run(int times) {
    for (int i = 0; i < times; ++i) ASSERT_TRUE(loop.run_once());
  }
  void forget_counts() { poller.polls = poller.sleeps = 0; }

  scripted_poller& poller;
  gyre::loop loop;

 private:
  scripted_loop(std::chrono::nanoseconds busy_poll, std::unique_ptr<scripted_poller> made)
      : poller(*made), loop({.busy_poll = busy_poll}, std::move(made)) {}
};

TEST(EventLoopWait, DescriptorsThatKeepItBusyCostOnePollATurn) {
  scripted_loop busy;
  busy.poller.on_poll = [] { return true; };
  busy.run(20);  // learns that polls find events
  busy.forget_counts();
  busy.run(1000);
  EXPECT_EQ(busy.poller.polls, 1000u);
  EXPECT_EQ(busy.poller.sleeps, 0u);
}

TEST(EventLoopWait, ALoopThatIsAlwaysAheadOfItsOnlyPeerSleepsAtOnce) {
  scripted_loop ping_pong;
  ping_pong.run(2000);
  ping_pong.forget_counts();
  ping_pong.run(10'000);
  EXPECT_EQ(ping_pong.poller.sleeps, 10'000u);
  EXPECT_LE(ping_pong.poller.polls, 10'000u / 256);
}

TEST(EventLoopWait, PollsWhileDescriptorsAreBusyAndSleepsAfterwards) {
  scripted_loop changing;
  for (int phase = 0; phase < 3; ++phase) {
    changing.poller.on_poll = [] { return true; };
    changing.run(1000);
    changing.forget_counts();
    changing.run(100);
    EXPECT_EQ(changing.poller.sleeps, 0u);
    changing.poller.on_poll = [] { return false; };
    changing.forget_counts();
    changing.run(1000);
    EXPECT_EQ(changing.poller.sleeps, 1000u);
    EXPECT_LE(changing.poller.polls, 16u);
  }
}

TEST(EventLoopWait, TasksRunBetweenThePollsOfABusyLoop) {
  scripted_loop busy;
  busy.poller.on_poll = [] { return true; };
  busy.run(20);
  int ran = 0;
  for (int i = 0; i < 100; ++i) {
    busy.loop.post([&] { ++ran; });
    busy.run(1);
    EXPECT_EQ(ran, i + 1);
  }
}

TEST(EventLoopWait, LookingForTasksDoesNotKeepDescriptorsWaiting) {
  scripted_loop looking;
  looking.loop.post([] {});
  looking.run(1);
  looking.poller.on_poll = [] { return true; };
  looking.forget_counts();
  looking.run(1);  // looks for further tasks at first
  EXPECT_EQ(looking.poller.polls, 1u);
  EXPECT_EQ(looking.poller.sleeps, 0u);
}

TEST(BusyPoll, IsOffUnlessAskedFor) {
  EXPECT_EQ(gyre::loop_options{}.busy_poll, 0ns);
  scripted_loop idle;
  idle.run(1);
  EXPECT_EQ(idle.poller.polls, 0u);
}

TEST(BusyPoll, FindsWhatComesInTimeWithoutSleeping) {
  scripted_loop polling(50us);
  polling.poller.on_poll = [n = 0]() mutable { return ++n % 20 == 0; };
  polling.run(1000);
  EXPECT_EQ(polling.poller.sleeps, 0u);
  EXPECT_EQ(polling.loop.metrics().io_events, 1000u);
  EXPECT_EQ(polling.loop.metrics().polls, polling.poller.polls);
  EXPECT_NEAR(static_cast<double>(polling.poller.polls), 20'000, 200);
}

TEST(BusyPoll, SleepsWhenItsTimeHasPassed) {
  scripted_loop polling(50us);
  const steady_time started = polling.poller.now();
  polling.poller.on_sleep = [&] { EXPECT_LE(polling.poller.now() - started, 52us); };
  polling.run(1);
  EXPECT_EQ(polling.poller.sleeps, 1u);
  EXPECT_NEAR(static_cast<double>(polling.poller.polls), 50, 2);
}

TEST(BusyPoll, StopsWhereItDoesNotPay) {
  scripted_loop polling(50us);
  polling.run(8);
  EXPECT_GE(polling.poller.polls, 8u * 50);
  polling.run(2000);
  polling.forget_counts();
  polling.run(10'240);
  EXPECT_LE(polling.poller.polls, 21u * 52);
  EXPECT_GE(polling.poller.polls, 50u) << "it tries again now and then";
}

TEST(BusyPoll, ComesBackWhenItPaysAgain) {
  scripted_loop polling(50us);
  polling.run(5000);
  polling.poller.on_poll = [n = 0]() mutable { return ++n % 20 == 0; };
  polling.run(1100);
  polling.forget_counts();
  polling.run(1000);
  EXPECT_EQ(polling.poller.sleeps, 0u);
}

TEST(BusyPoll, EndsWithATask) {
  scripted_loop polling(1h);
  bool ran = false;
  polling.poller.on_poll = [&, n = 0]() mutable {
    if (++n == 10) polling.loop.post([&] { ran = true; });
    return false;
  };
  polling.run(1);
  EXPECT_TRUE(ran);
  EXPECT_EQ(polling.poller.sleeps, 0u);
  EXPECT_EQ(polling.poller.polls, 11u) << "one more with the task's own turn";
}

TEST(BusyPoll, EndsWithStop) {
  scripted_loop polling(1h);
  polling.poller.on_poll = [&, n = 0]() mutable {
    if (++n == 10) polling.loop.stop();
    return false;
  };
  polling.loop.run();
  EXPECT_EQ(polling.poller.polls, 10u);
  EXPECT_EQ(polling.poller.sleeps, 0u);
}

TEST(BusyPoll, EndsWithATimerOnTime) {
  scripted_loop polling(1h);
  steady_time fired{};
  gyre::timer timer(polling.loop, [&] { fired = polling.poller.now(); });
  const steady_time due = polling.poller.now() + 10us;
  timer.start_at(due);
  polling.run(1);
  EXPECT_GE(fired, due);
  EXPECT_LE(fired - due, 5us);
  EXPECT_EQ(polling.poller.sleeps, 0u);
}

TEST(BusyPoll, EndsWhereRunUntilDoes) {
  scripted_loop polling(1h);
  polling.loop.run_for(100us);
  EXPECT_LE(polling.poller.polls, 102u);
  EXPECT_EQ(polling.poller.sleeps, 0u);
}

}  // namespace
}  // namespace event_loop_busy_poll_test

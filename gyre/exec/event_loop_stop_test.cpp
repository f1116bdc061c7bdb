// SPDX-License-Identifier: Apache-2.0
// Tests of stop(): before, during and after run, from tasks, threads and signal handlers.
#include <gyre/exec/loop.hpp>

#include <gyre/exec/timer.hpp>
#include <gyre/testing/virtual_time_loop.hpp>
#include <tests/support/signal_sender.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <optional>
#include <thread>
#include <vector>

namespace event_loop_stop_test {
namespace {

using namespace std::chrono_literals;
using gyre::testing::virtual_time_loop;
using testing::ElementsAre;

class EventLoopStop : public testing::Test {
 protected:
  virtual_time_loop<> virtual_time_;
  gyre::loop& loop_ = virtual_time_.loop;
};

TEST_F(EventLoopStop, BeforeRunMakesRunReturnAtOnceAndKeepsTheTasks) {
  bool ran = false;
  loop_.post([&] { ran = true; });
  loop_.stop();
  loop_.run();
  EXPECT_FALSE(ran);
  EXPECT_EQ(loop_.metrics().tasks_pending, 1u);
}

TEST_F(EventLoopStop, LastsUntilRestart) {
  loop_.stop();
  EXPECT_TRUE(loop_.stopped());
  loop_.post([] { FAIL(); });
  loop_.run();
  loop_.run();
  EXPECT_FALSE(loop_.run_once());
  EXPECT_FALSE(loop_.poll());
  loop_.run_for(1h);
  EXPECT_TRUE(loop_.stopped());
}

TEST_F(EventLoopStop, IsIdempotent) {
  int runs = 0;
  loop_.stop();
  loop_.stop();
  loop_.restart();
  EXPECT_FALSE(loop_.stopped());
  loop_.post([&] {
    ++runs;
    loop_.stop();
    loop_.stop();
  });
  loop_.run();
  EXPECT_EQ(runs, 1);
  loop_.restart();
  EXPECT_FALSE(loop_.poll());
}

TEST_F(EventLoopStop, FromATaskLeavesTheRestOfTheBatchForLater) {
  std::vector<int> ran;
  for (int i = 0; i < 5; ++i) {
    loop_.post([&, i] {
      ran.push_back(i);
      if (i == 1 || i == 4) loop_.stop();
    });
  }
  loop_.run();
  EXPECT_THAT(ran, ElementsAre(0, 1));
  EXPECT_EQ(loop_.metrics().tasks_pending, 3u);
  loop_.restart();
  loop_.run();
  EXPECT_THAT(ran, ElementsAre(0, 1, 2, 3, 4));
}

TEST_F(EventLoopStop, FromATaskLeavesTheRestOfABoundedInboxToo) {
  virtual_time_loop<> bounded({.inbox_limit = 10});
  std::vector<int> ran;
  for (int i = 0; i < 4; ++i) {
    bounded.loop.post([&, i] {
      ran.push_back(i);
      bounded.loop.stop();
    });
  }
  bounded.loop.run();
  EXPECT_THAT(ran, ElementsAre(0));
  EXPECT_EQ(bounded.loop.metrics().tasks_pending, 3u);
}

TEST_F(EventLoopStop, FromATaskLeavesTimersUnserved) {
  gyre::timer due(loop_, [] { FAIL(); });
  due.start_after(0s);
  loop_.post([&] { loop_.stop(); });
  loop_.run();
  EXPECT_TRUE(due.active());
}

TEST_F(EventLoopStop, FromATimer) {
  gyre::timer stopper(loop_, [&] { loop_.stop(); });
  stopper.start_after(1h);
  loop_.run();
  EXPECT_EQ(loop_.metrics().timers_fired, 1u);
}

TEST_F(EventLoopStop, FromATaskOfALoopWithin) {
  virtual_time_loop<> inner;
  inner.loop.post([&] { loop_.stop(); });
  loop_.post([&] { inner.loop.poll(); });
  loop_.run();
  EXPECT_TRUE(loop_.stopped());
}

TEST_F(EventLoopStop, FromAnotherThreadWakesTheSleepingLoop) {
  std::jthread stopper;
  virtual_time_.time.on_sleep([&] { stopper = std::jthread([&] { loop_.stop(); }); });
  loop_.run();
  EXPECT_EQ(virtual_time_.time.wakes(), 1u);
}

TEST_F(EventLoopStop, FromAnotherThreadEndsALoopThatIsNeverIdle) {
  struct endless : gyre::operation {
    explicit endless(gyre::loop& on) : operation(&run), loop(on) {}
    static void run(operation& op) {
      auto& self = static_cast<endless&>(op);
      self.begun = true;
      self.loop.post(self);
    }
    gyre::loop& loop;
    std::atomic<bool> begun = false;
  } op(loop_);
  loop_.post(op);
  std::jthread stopper([&] {
    while (!op.begun) std::this_thread::yield();
    loop_.stop();
  });
  loop_.run();
  EXPECT_TRUE(loop_.stopped());
}

TEST_F(EventLoopStop, AStoppedLoopStillTakesPosts) {
  bool ran = false;
  loop_.stop();
  loop_.run();
  loop_.post([&] { ran = true; });
  loop_.restart();
  EXPECT_TRUE(loop_.poll());
  EXPECT_TRUE(ran);
}

TEST_F(EventLoopStop, IsNeverSleptThrough) {
  gyre::loop loop;  // on the real poller
  for (int round = 0; round < 300; ++round) {
    std::jthread stopper([&] { loop.stop(); });
    loop.run();
    stopper.join();
    loop.restart();
  }
}

TEST_F(EventLoopStop, SeveralThreadsStopTheLoopAtOnce) {
  gyre::loop loop;
  for (int round = 0; round < 50; ++round) {
    std::vector<std::jthread> stoppers;
    for (int i = 0; i < 4; ++i) stoppers.emplace_back([&] { loop.stop(); });
    loop.run();
    stoppers.clear();
    loop.restart();
  }
}

// A handler of SIGUSR1 that stops a loop.
class stop_on_signal {
 public:
  explicit stop_on_signal(gyre::event_loop& loop) {
    stopped_ = &loop;
    struct sigaction action{};
    action.sa_handler = [](int) { stopped_->stop(); };
    sigaction(SIGUSR1, &action, &before_);
  }
  stop_on_signal(const stop_on_signal&) = delete;
  stop_on_signal& operator=(const stop_on_signal&) = delete;
  ~stop_on_signal() { sigaction(SIGUSR1, &before_, nullptr); }

 private:
  static inline gyre::event_loop* stopped_ = nullptr;
  struct sigaction before_{};
};

TEST_F(EventLoopStop, FromASignalHandlerThatInterruptsATask) {
  const stop_on_signal handler(loop_);
  loop_.post([] { std::raise(SIGUSR1); });
  loop_.post([] { FAIL() << "the rest of the batch stays"; });
  loop_.run();
  EXPECT_EQ(loop_.metrics().tasks_pending, 1u);
}

// The handler runs after the loop has decided to sleep and before the system call: no EINTR ends
// the wait.
TEST_F(EventLoopStop, FromASignalHandlerJustBeforeTheWaitIsNotSleptThrough) {
  const stop_on_signal handler(loop_);
  virtual_time_.time.on_sleep([&] {
    std::raise(SIGUSR1);
    if (virtual_time_.time.wakes() == 0) {
      ADD_FAILURE() << "the loop would sleep for ever";
      virtual_time_.time.wake();
    }
  });
  loop_.run();
  EXPECT_TRUE(loop_.stopped());
}

TEST_F(EventLoopStop, FromASignalHandlerThatInterruptsTheWait) {
  gyre::loop loop;  // on the real poller
  const stop_on_signal handler(loop);
  const pthread_t runner = pthread_self();
  std::optional<gyre::test::signal_sender> sender;
  loop.post([&] { sender.emplace(runner, SIGUSR1, gyre::test::sends::once); });
  loop.run();
  EXPECT_TRUE(loop.stopped());
}

}  // namespace
}  // namespace event_loop_stop_test

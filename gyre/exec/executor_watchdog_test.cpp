// SPDX-License-Identifier: Apache-2.0
// Tests of the watchdog. A hold ends when it has been reported, so none depends on the speed of the
// machine.
#include <gyre/exec/executor_watchdog.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/pool/thread_pool.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace executor_watchdog_test {
namespace {

using namespace std::chrono_literals;
using gyre::executor_watchdog;
using gyre::held_executor;

struct report {
  std::string name;
  gyre::executor* where;
  std::chrono::nanoseconds duration;
  pid_t thread;
};

// The first call, and the number of calls.
class first_report {
 public:
  auto function() {
    return [this](const held_executor& held) {
      if (calls_.fetch_add(1) == 0) {
        first_.set_value({std::string(held.name), held.target, held.duration, held.thread});
      }
    };
  }
  report get() { return first_.get_future().get(); }
  int calls() const { return calls_.load(); }

 private:
  std::promise<report> first_;
  std::atomic<int> calls_{0};
};

TEST(ExecutorWatchdog, TellsThatATaskHoldsALoop) {
  first_report held;
  first_report released;
  gyre::loop_thread io;
  executor_watchdog watchdog(
      {.limit = 1ms, .on_hold = held.function(), .on_release = released.function()});
  watchdog.watch(io.loop(), "io");
  std::promise<void> end;
  io.loop().post([until = end.get_future()] { until.wait(); });
  const report hold = held.get();
  EXPECT_EQ(hold.name, "io");
  EXPECT_EQ(hold.where, &io.loop());
  EXPECT_GE(hold.duration, 1ms);
  EXPECT_GE(watchdog.holds(), 1U);
  end.set_value();
  const report release = released.get();
  EXPECT_EQ(release.name, "io");
  EXPECT_GE(release.duration, hold.duration);
  EXPECT_NE(release.thread, 0);
  EXPECT_NE(release.thread, ::gettid());
  watchdog.forget(io.loop());
}

TEST(ExecutorWatchdog, ReportsAHoldOnce) {
  first_report held;
  first_report other;
  gyre::loop_thread first;
  gyre::loop_thread second;
  executor_watchdog watchdog({.limit = 1ms, .on_hold = [&](const held_executor& each) {
                                (each.name == "first" ? held : other).function()(each);
                              }});
  std::promise<void> end;
  const std::shared_future<void> until = end.get_future().share();
  first.loop().post([until] { until.wait(); });
  watchdog.watch(first.loop(), "first");
  held.get();
  // Another round of the watchdog is over when it has reported another loop.
  second.loop().post([until] { until.wait(); });
  watchdog.watch(second.loop(), "second");
  other.get();
  EXPECT_EQ(held.calls(), 1);
  end.set_value();
  watchdog.forget(first.loop());
  watchdog.forget(second.loop());
}

TEST(ExecutorWatchdog, WatchesPoolsToo) {
  first_report held;
  gyre::thread_pool pool(2);
  executor_watchdog watchdog({.limit = 1ms, .on_hold = held.function()});
  watchdog.watch(pool, "pool");
  std::promise<void> end;
  const std::shared_future<void> until = end.get_future().share();
  for (int worker = 0; worker < 2; ++worker) pool.post([until] { until.wait(); });
  EXPECT_EQ(held.get().where, &pool);
  end.set_value();
  watchdog.forget(pool);
}

TEST(ExecutorWatchdog, EndsWhileALoopIsHeldOrDoesNotRun) {
  first_report held;
  gyre::loop loop;  // runs nothing
  std::optional<executor_watchdog> watchdog(std::in_place,
                                            executor_watchdog::options{1ms, held.function(), {}});
  watchdog->watch(loop, "not run");
  const report hold = held.get();
  EXPECT_EQ(hold.thread, 0);
  watchdog.reset();
  loop.poll();  // the heartbeat, which is its own by now
}

TEST(ExecutorWatchdog, ForgottenLoopMayEndBeforeItsHeartbeatRan) {
  first_report held;
  executor_watchdog watchdog({.limit = 1ms, .on_hold = held.function()});
  {
    gyre::loop loop;
    watchdog.watch(loop, "first name");
    watchdog.watch(loop, "second name");
    EXPECT_EQ(held.get().where, &loop);
    watchdog.forget(loop);
    watchdog.forget(loop);
  }
}

TEST(ExecutorWatchdog, LetsIdleLoopsSleepAndEndsAtOnce) {
  gyre::loop_thread io;
  executor_watchdog watchdog({.limit = std::chrono::nanoseconds::max()});
  watchdog.watch(io.loop(), "io");
  EXPECT_EQ(watchdog.holds(), 0U);
}

TEST(ExecutorWatchdog, PrintsASentenceByDefault) {
  testing::internal::CaptureStderr();
  {
    first_report released;
    gyre::loop_thread io;
    executor_watchdog watchdog({.limit = 1ms, .on_release = released.function()});
    watchdog.watch(io.loop(), "io");
    std::promise<void> end;
    io.loop().post([until = end.get_future()] { until.wait(); });
    while (watchdog.holds() == 0) std::this_thread::yield();
    end.set_value();
    released.get();
    watchdog.forget(io.loop());
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("gyre: 'io' has been held for "));
}

TEST(ExecutorWatchdog, RefusesALimitThatIsNotPositive) {
  EXPECT_THROW(executor_watchdog({.limit = 0ms}), std::invalid_argument);
}

}  // namespace
}  // namespace executor_watchdog_test

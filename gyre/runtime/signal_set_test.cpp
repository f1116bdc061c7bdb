// SPDX-License-Identifier: Apache-2.0
// Tests of POSIX signals as events of a loop.
#include <gyre/runtime/signal_set.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/runtime/loop_pool.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/with_timeout.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <coroutine>
#include <csignal>
#include <cstdint>
#include <exception>
#include <future>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace signal_set_test {
namespace {

using gyre::signal_info;
using gyre::signal_set;
using testing::ElementsAre;

bool blocked(int signal) {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return sigismember(&mask, signal) == 1;
}

class SignalSet : public testing::Test {
 protected:
  auto record() {
    return
        [this](const signal_info& info) { received_.push_back(static_cast<int>(info.ssi_signo)); };
  }
  void serve() {
    while (loop_.poll()) continue;
  }
  gyre::loop loop_;
  std::vector<int> received_;
};

TEST_F(SignalSet, ReceivesEachOfItsSignals) {
  const signal_set signals(loop_, {SIGUSR1, SIGUSR2, SIGTERM}, record());
  for (const int signal : {SIGTERM, SIGUSR1, SIGUSR2}) {
    std::raise(signal);
    serve();
  }
  EXPECT_THAT(received_, ElementsAre(SIGTERM, SIGUSR1, SIGUSR2));
}

TEST_F(SignalSet, ReceivesAllThatArrivedBeforeATurn) {
  const signal_set signals(loop_, {SIGUSR1, SIGUSR2}, record());
  std::raise(SIGUSR2);
  std::raise(SIGUSR1);
  serve();
  EXPECT_THAT(received_, testing::UnorderedElementsAre(SIGUSR1, SIGUSR2));
}

TEST_F(SignalSet, TellsTheSenderAndTheValue) {
  std::vector<int> values;
  const signal_set signals(loop_, {SIGRTMIN}, [&](const signal_info& info) {
    EXPECT_EQ(info.ssi_pid, static_cast<std::uint32_t>(getpid()));
    values.push_back(info.ssi_int);
  });
  for (int i = 1; i <= 3; ++i) {
    sigval value{};
    value.sival_int = i;
    ASSERT_EQ(sigqueue(getpid(), SIGRTMIN, value), 0);
  }
  serve();
  EXPECT_THAT(values, ElementsAre(1, 2, 3)) << "real-time signals queue";
}

TEST_F(SignalSet, MergesAnOrdinarySignalThatWasNotServedYet) {
  const signal_set signals(loop_, {SIGUSR1}, record());
  std::raise(SIGUSR1);
  std::raise(SIGUSR1);
  serve();
  EXPECT_THAT(received_, ElementsAre(SIGUSR1));
}

TEST_F(SignalSet, WakesASleepingLoop) {
  const signal_set signals(loop_, {SIGUSR1}, [&](const signal_info&) { loop_.stop(); });
  std::jthread sender([] { kill(getpid(), SIGUSR1); });  // the thread inherits the mask
  loop_.run();
  EXPECT_TRUE(loop_.stopped());
}

TEST_F(SignalSet, ReceivesWhatOlderThreadsOfGyreMightTake) {
  gyre::loop_thread thread;
  gyre::loop_pool loops(2);
  gyre::thread_pool stealing({.workers = 2});
  gyre::thread_pool blocking({.workers = 2, .scheduler = gyre::scheduler::blocking});
  const signal_set signals(loop_, {SIGTERM, SIGUSR1, SIGRTMAX}, record());
  for (const int signal : {SIGTERM, SIGUSR1, SIGRTMAX}) {
    kill(getpid(), signal);
    serve();
  }
  EXPECT_THAT(received_, ElementsAre(SIGTERM, SIGUSR1, SIGRTMAX));
}

TEST_F(SignalSet, ProgramThatAThreadOfGyreStartsCanBeEnded) {
  gyre::loop_thread thread;
  std::promise<pid_t> started;
  thread.loop().post([&] {
    const pid_t child = fork();
    if (child == 0) {
      gyre::unblock_signals();
      for (;;) pause();
    }
    started.set_value(child);
  });
  const pid_t child = started.get_future().get();
  ASSERT_GT(child, 0);
  kill(child, SIGTERM);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

TEST_F(SignalSet, TwoSetsShareALoop) {
  std::vector<int> others;
  const signal_set first(loop_, {SIGUSR1}, record());
  const signal_set second(loop_, {SIGUSR2}, [&](const signal_info& info) {
    others.push_back(static_cast<int>(info.ssi_signo));
  });
  std::raise(SIGUSR1);
  std::raise(SIGUSR2);
  serve();
  EXPECT_THAT(received_, ElementsAre(SIGUSR1));
  EXPECT_THAT(others, ElementsAre(SIGUSR2));
}

TEST_F(SignalSet, BlocksItsSignalsAndRestoresTheMask) {
  {
    const signal_set signals(loop_, {SIGUSR1, SIGUSR2}, record());
    EXPECT_TRUE(blocked(SIGUSR1) && blocked(SIGUSR2));
    EXPECT_FALSE(blocked(SIGTERM));
  }
  EXPECT_FALSE(blocked(SIGUSR1) || blocked(SIGUSR2));
  EXPECT_EQ(loop_.metrics().descriptors_watched, 0u);
}

TEST_F(SignalSet, KeepsBlockedWhatAnotherSetWants) {
  auto first =
      std::make_unique<signal_set>(loop_, std::initializer_list{SIGUSR1, SIGUSR2}, record());
  {
    const signal_set second(loop_, {SIGUSR1}, record());
    first.reset();
    EXPECT_TRUE(blocked(SIGUSR1));
    EXPECT_FALSE(blocked(SIGUSR2));
    std::raise(SIGUSR1);
    serve();
  }
  EXPECT_THAT(received_, ElementsAre(SIGUSR1));
  EXPECT_FALSE(blocked(SIGUSR1));
}

TEST_F(SignalSet, LeavesWhatWasBlockedBeforeBlocked) {
  sigset_t before;
  sigemptyset(&before);
  sigaddset(&before, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &before, nullptr);
  {
    const signal_set signals(loop_, {SIGUSR1, SIGUSR2}, record());
  }
  EXPECT_TRUE(blocked(SIGUSR1));
  EXPECT_FALSE(blocked(SIGUSR2));
  pthread_sigmask(SIG_UNBLOCK, &before, nullptr);
}

TEST_F(SignalSet, ASignalLeftPendingTakesItsOrdinaryEffect) {
  static int handled;
  handled = 0;
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = [](int) { ++handled; };
  sigaction(SIGUSR1, &action, &before);
  {
    const signal_set signals(loop_, {SIGUSR1}, record());
    std::raise(SIGUSR1);
    EXPECT_EQ(handled, 0);
  }
  EXPECT_EQ(handled, 1);
  EXPECT_TRUE(received_.empty());
  sigaction(SIGUSR1, &before, nullptr);
}

TEST_F(SignalSet, RefusesWhatCannotBeCaughtAndIsNoSignal) {
  for (const int refused : {SIGKILL, SIGSTOP, 0, -1, 1000}) {
    try {
      const signal_set signals(loop_, {SIGUSR1, refused}, record());
      ADD_FAILURE() << refused << " was taken";
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code().value(), EINVAL);
    }
    EXPECT_FALSE(blocked(SIGUSR1));
  }
}

TEST_F(SignalSet, MayDestroyItselfInItsFunctionWhichGoesOn) {
  std::string after;
  std::unique_ptr<signal_set> signals;
  signals =
      std::make_unique<signal_set>(loop_, std::initializer_list<int>{SIGUSR1, SIGUSR2},
                                   [&, text = std::string(100, 'x')](const signal_info& info) {
                                     EXPECT_EQ(info.ssi_signo, static_cast<std::uint32_t>(SIGUSR1));
                                     signals.reset();
                                     after = text;
                                     EXPECT_EQ(info.ssi_signo, static_cast<std::uint32_t>(SIGUSR1));
                                   });
  std::raise(SIGUSR1);
  serve();
  EXPECT_EQ(after, std::string(100, 'x'));
  EXPECT_FALSE(blocked(SIGUSR1));
}

TEST(SignalSetException, GoesToTheLoopsHandlerAndTheSetGoesOn) {
  int exceptions = 0;
  gyre::loop loop({.on_exception = [&](std::exception_ptr) { ++exceptions; }});
  const signal_set signals(loop, {SIGUSR1},
                           [](const signal_info&) { throw std::runtime_error("signal"); });
  for (int i = 1; i <= 2; ++i) {
    std::raise(SIGUSR1);
    EXPECT_TRUE(loop.poll());
    EXPECT_EQ(exceptions, i);
  }
}

// ---- waits of coroutines

gyre::task<int> next_of(signal_set& signals) {
  const signal_info info = co_await signals.wait();
  co_return static_cast<int>(info.ssi_signo);
}

TEST_F(SignalSet, GivesSignalsToACoroutine) {
  signal_set signals(loop_, {SIGUSR1, SIGUSR2});
  std::raise(SIGUSR2);
  EXPECT_EQ(gyre::sync_wait(loop_, next_of(signals)), SIGUSR2) << "it arrived before the wait";
  auto received = gyre::spawn_future(loop_, next_of(signals));
  serve();
  std::raise(SIGUSR1);
  serve();
  EXPECT_EQ(received.get(), SIGUSR1) << "it arrived during the wait";
  EXPECT_EQ(loop_.metrics().descriptors_watched, 0u);
}

TEST_F(SignalSet, LosesNoSignalBetweenTwoWaits) {
  signal_set signals(loop_, {SIGRTMIN});
  for (int i = 1; i <= 5; ++i) {
    sigval value{};
    value.sival_int = i;
    ASSERT_EQ(sigqueue(getpid(), SIGRTMIN, value), 0);
  }
  const auto values = gyre::sync_wait(loop_, [](signal_set& from) -> gyre::task<std::vector<int>> {
    std::vector<int> seen;
    for (int i = 0; i < 5; ++i) {
      const signal_info info = co_await from.wait();
      seen.push_back(info.ssi_int);
      co_await gyre::yield();
    }
    co_return seen;
  }(signals));
  EXPECT_THAT(values, ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(SignalSet, WakesALoopThatSleepsForACoroutine) {
  signal_set signals(loop_, {SIGUSR1});
  std::jthread sender([] { kill(getpid(), SIGUSR1); });
  EXPECT_EQ(gyre::sync_wait(loop_, next_of(signals)), SIGUSR1);
}

TEST_F(SignalSet, EndsOneWaitForEachSignalTheOldestFirst) {
  signal_set signals(loop_, {SIGRTMIN, SIGRTMIN + 1});
  auto first = gyre::spawn_future(loop_, next_of(signals));
  auto second = gyre::spawn_future(loop_, next_of(signals));
  serve();
  std::raise(SIGRTMIN + 1);
  serve();
  EXPECT_EQ(first.get(), SIGRTMIN + 1);
  EXPECT_NE(second.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  std::raise(SIGRTMIN);
  serve();
  EXPECT_EQ(second.get(), SIGRTMIN);
}

TEST_F(SignalSet, WaitThatIsStoppedTakesNoSignal) {
  signal_set signals(loop_, {SIGUSR1});
  gyre::inplace_stop_source stop;
  auto waits = gyre::spawn_future(loop_, next_of(signals), stop.get_token());
  serve();
  EXPECT_EQ(loop_.metrics().descriptors_watched, 1u);
  std::jthread([&] { stop.request_stop(); }).join();
  std::raise(SIGUSR1);
  serve();
  EXPECT_THROW(waits.get(), std::system_error);
  EXPECT_EQ(gyre::sync_wait(loop_, next_of(signals)), SIGUSR1);
}

TEST_F(SignalSet, SignalBeforeTheStopEndsTheWait) {
  signal_set signals(loop_, {SIGUSR1});
  gyre::inplace_stop_source stop;
  auto waits = gyre::spawn_future(loop_, next_of(signals), stop.get_token());
  serve();
  std::raise(SIGUSR1);
  loop_.poll();
  stop.request_stop();
  serve();
  EXPECT_EQ(waits.get(), SIGUSR1);
}

TEST_F(SignalSet, StopBeforeTheWaitTakesNoSignal) {
  signal_set signals(loop_, {SIGUSR1});
  std::raise(SIGUSR1);
  gyre::inplace_stop_source stop;
  stop.request_stop();
  auto waits = gyre::spawn_future(loop_, next_of(signals), stop.get_token());
  serve();
  EXPECT_THROW(waits.get(), std::system_error);
  EXPECT_EQ(gyre::sync_wait(loop_, next_of(signals)), SIGUSR1);
}

TEST_F(SignalSet, WaitMayBeDestroyedBeforeItsSignal) {
  signal_set signals(loop_, {SIGUSR1});
  {
    auto wait = signals.wait();
    EXPECT_TRUE(wait.await_suspend(std::noop_coroutine()));
    serve();
    EXPECT_EQ(loop_.metrics().descriptors_watched, 1u);
  }
  serve();
  EXPECT_EQ(loop_.metrics().descriptors_watched, 0u);
  std::raise(SIGUSR1);
  EXPECT_EQ(gyre::sync_wait(loop_, next_of(signals)), SIGUSR1);
}

TEST_F(SignalSet, WaitEndsAtATimeLimit) {
  signal_set signals(loop_, {SIGUSR1});
  const auto waits = [](signal_set& from) -> gyre::task<> {
    co_await gyre::with_timeout(next_of(from), std::chrono::milliseconds(1));
  };
  EXPECT_THROW(gyre::sync_wait(loop_, waits(signals)), std::system_error);
}

gyre::task<bool> next_on(signal_set& signals, gyre::thread_pool& pool) {
  co_await signals.wait();
  co_return pool.running_here();
}

TEST_F(SignalSet, CoroutinesOnOtherExecutorsWaitAndResumeThere) {
  signal_set signals(loop_, {SIGRTMIN});
  gyre::thread_pool pool({.workers = 2});
  std::vector<std::future<bool>> waits;
  constexpr int count = 20;
  for (int i = 0; i < count; ++i) {
    waits.push_back(gyre::spawn_future(pool, next_on(signals, pool)));
  }
  std::jthread sender([] {
    for (int i = 0; i < count; ++i) {
      while (sigqueue(getpid(), SIGRTMIN, {}) != 0) std::this_thread::yield();
    }
  });
  for (auto& each : waits) {
    while (each.wait_for(std::chrono::seconds(0)) != std::future_status::ready) loop_.poll();
    EXPECT_TRUE(each.get());
  }
}

TEST_F(SignalSet, GivesErrorsAsValues) {
  signal_set signals(loop_, {SIGUSR1});
  std::raise(SIGUSR1);
  const auto number = gyre::sync_wait(loop_, [](signal_set& from) -> gyre::task<int> {
    const auto info = co_await gyre::as_expected(from.wait());
    co_return info ? static_cast<int>(info->ssi_signo) : 0;
  }(signals));
  EXPECT_EQ(number, SIGUSR1);
}

TEST_F(SignalSet, WithAFunctionRefusesWaits) {
  signal_set signals(loop_, {SIGUSR1}, record());
  EXPECT_THROW(static_cast<void>(signals.wait()), std::logic_error);
}

}  // namespace
}  // namespace signal_set_test

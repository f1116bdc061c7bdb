// SPDX-License-Identifier: Apache-2.0
// Tests of POSIX signals as events of a loop.
#include <gyre/runtime/signal_set.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/runtime/loop_pool.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
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

}  // namespace
}  // namespace signal_set_test

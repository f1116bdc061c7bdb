// SPDX-License-Identifier: Apache-2.0
// Tests of the signals of a container's first process. The namespace of that process is made where
// the machine permits that.
#include <gyre/runtime/detail/init_signals.hpp>

#include <gyre/runtime/runtime.hpp>
#include <gyre/task/sleep.hpp>

#include <gtest/gtest.h>

#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

namespace init_signals_test {
namespace {

using gyre::runtime;
using gyre::shutdown_hook;
using gyre::shutdown_phase;
using gyre::shutdown_step;
using gyre::task;
using gyre::detail::let_signals_end_init;

// Processes of their own, whose actions of signals may change.
class InitSignals : public testing::Test {
 protected:
  InitSignals() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

constexpr std::array ending{SIGTERM, SIGINT};

[[noreturn]] void raise_as_init(int signal) {
  let_signals_end_init(ending, true);
  std::raise(signal);
  std::_Exit(0);
}

TEST_F(InitSignals, EndTheProcessWithTheStatusThatAShellReports) {
  EXPECT_EXIT(raise_as_init(SIGTERM), testing::ExitedWithCode(128 + SIGTERM), "");
  EXPECT_EXIT(raise_as_init(SIGINT), testing::ExitedWithCode(128 + SIGINT), "");
  EXPECT_EXIT(raise_as_init(SIGUSR1), testing::KilledBySignal(SIGUSR1), "");  // not among them
}

TEST_F(InitSignals, AreLeftAloneInOtherProcesses) {
  const auto raise = [] {
    let_signals_end_init(ending, false);
    std::raise(SIGTERM);
  };
  EXPECT_EXIT(raise(), testing::KilledBySignal(SIGTERM), "");
}

TEST_F(InitSignals, KeepTheActionsOfTheProgramAndThoseThatEndNothing) {
  const auto raise = [] {
    std::signal(SIGTERM, [](int) {});
    std::signal(SIGINT, SIG_IGN);
    constexpr std::array all{SIGTERM, SIGINT, SIGCHLD, SIGWINCH, SIGURG, SIGCONT};
    let_signals_end_init(all, true);
    for (const int each : all) std::raise(each);
    std::_Exit(0);
  };
  EXPECT_EXIT(raise(), testing::ExitedWithCode(0), "");
}

constexpr int not_permitted = 77;

// Forks the first process of a new PID namespace, and ends with its status: the number of the
// signal that has ended it, or its exit status. Where that is not permitted, ends with
// not_permitted.
template <class Program>
[[noreturn]] void run_as_init(Program program) {
  if (::unshare(CLONE_NEWPID) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) {
    std::_Exit(not_permitted);
  }
  const pid_t init = ::fork();
  if (init < 0) std::_Exit(not_permitted);
  if (init == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!gyre::detail::is_init_process()) std::_Exit(not_permitted);
    program();
    std::_Exit(0);
  }
  int status = 0;
  while (::waitpid(init, &status, 0) < 0) continue;
  std::_Exit(WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

bool may_make_pid_namespaces() {
  const pid_t child = ::fork();
  if (child == 0) run_as_init([] {});
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) continue;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// A runtime that neither drains nor obeys `force`, and gets three signals one after the other.
void hang() {
  runtime rt({.loops = 1,
              .pool = {.workers = 1},
              .drain_time = std::chrono::minutes(10),
              .force_time = std::chrono::minutes(10)});
  std::vector<shutdown_hook> hooks;
  std::optional<shutdown_step> never_done;
  hooks.push_back(rt.on_shutdown(shutdown_phase::drain, [&](shutdown_step step) {
    never_done.emplace(std::move(step));
    ::kill(::getpid(), SIGTERM);
  }));
  hooks.push_back(rt.on_shutdown(shutdown_phase::force, [] { ::kill(::getpid(), SIGTERM); }));
  ::kill(::getpid(), SIGTERM);
  static_cast<void>(rt.run([](runtime&) -> task<> {
    co_await gyre::sleep_for(std::chrono::hours(1));  // until it is asked to stop
  }));
}

TEST_F(InitSignals, EndARuntimeThatHangsAsInOtherProcesses) {
  if (!may_make_pid_namespaces()) GTEST_SKIP() << "no PID namespaces are permitted here";
  EXPECT_EXIT(run_as_init(hang), testing::ExitedWithCode(128 + SIGTERM), "");
}

TEST_F(InitSignals, EndTheProgramAfterTheEndOfARuntime) {
  if (!may_make_pid_namespaces()) GTEST_SKIP() << "no PID namespaces are permitted here";
  const auto end_late = [] {
    {
      runtime rt({.loops = 1, .pool = {.workers = 1}});
      rt.shutdown();
      static_cast<void>(rt.run([](runtime&) -> task<> { co_return; }));
    }
    ::kill(::getpid(), SIGTERM);
  };
  EXPECT_EXIT(run_as_init(end_late), testing::ExitedWithCode(128 + SIGTERM), "");
}

}  // namespace
}  // namespace init_signals_test

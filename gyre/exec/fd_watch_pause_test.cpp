// SPDX-License-Identifier: Apache-2.0
// Tests of descriptor watches that pause, on real descriptors.
#include <gyre/exec/fd_watch.hpp>

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/timer.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <system_error>
#include <vector>

namespace fd_watch_pause_test {
namespace {

using gyre::fd_watch;
using gyre::readiness;
using gyre::trigger;
using gyre::unique_fd;
using testing::ElementsAre;

class FdWatchPause : public testing::TestWithParam<trigger> {
 protected:
  FdWatchPause() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) {
      throw std::system_error(errno, std::system_category());
    }
    near_ = unique_fd(ends[0]);
    far_ = unique_fd(ends[1]);
  }
  void start() { watch().start(readiness::readable, GetParam()); }
  fd_watch& watch() {
    if (!watch_) {
      watch_.emplace(loop_, near_.get(), [this](readiness ready) { reports_.push_back(ready); });
    }
    return *watch_;
  }
  void arrive() const { EXPECT_EQ(::write(far_.get(), "x", 1), 1); }
  void take() const {
    char byte = 0;
    EXPECT_EQ(::read(near_.get(), &byte, 1), 1);
  }
  // The loop runs some turns that do not wait.
  void run_turns() {
    for (int turn = 0; turn < 4; ++turn) loop_.poll();
  }

  unique_fd near_, far_;
  // Every ready descriptor is served in one turn, however slow the machine is.
  gyre::loop loop_{{.io_time = std::chrono::hours(1)}};
  std::vector<readiness> reports_;
  std::optional<fd_watch> watch_;
};

INSTANTIATE_TEST_SUITE_P(, FdWatchPause, testing::Values(trigger::level, trigger::edge),
                         [](const auto& each) {
                           return each.param == trigger::level ? "Level" : "Edge";
                         });

TEST_P(FdWatchPause, WithholdsReportsUntilResumed) {
  start();
  watch().pause();
  EXPECT_TRUE(watch().paused());
  EXPECT_TRUE(watch().active());
  arrive();
  run_turns();
  EXPECT_THAT(reports_, ElementsAre());
  watch().resume();
  EXPECT_FALSE(watch().paused());
  loop_.poll();
  EXPECT_THAT(reports_, ElementsAre(readiness::readable));
}

TEST_P(FdWatchPause, WithinATurnLosesNothing) {
  start();
  arrive();
  watch().pause();
  watch().resume();
  loop_.poll();
  EXPECT_THAT(reports_, ElementsAre(readiness::readable));
}

TEST_P(FdWatchPause, InAFunctionWithholdsEventsOfTheSameWait) {
  start();
  fd_watch first(loop_, far_.get(), [&](readiness) { watch().pause(); });
  // Whichever of the two is served first, the other has been reported by the same wait.
  first.start(readiness::writable);
  run_turns();
  arrive();
  run_turns();
  EXPECT_THAT(reports_, ElementsAre());
  first.stop();
  watch().resume();
  loop_.poll();
  EXPECT_THAT(reports_, ElementsAre(readiness::readable));
}

TEST_P(FdWatchPause, ForgetsReadinessThatHasPassed) {
  start();
  watch().pause();
  arrive();
  run_turns();
  take();
  watch().resume();
  run_turns();
  EXPECT_THAT(reports_, ElementsAre());
  arrive();
  loop_.poll();
  EXPECT_THAT(reports_, ElementsAre(readiness::readable));
}

TEST_P(FdWatchPause, DoesNotKeepTheLoopAwake) {
  start();
  watch().pause();
  arrive();
  gyre::timer end(loop_, [&] { loop_.stop(); });
  end.start_after(std::chrono::milliseconds(20));
  loop_.run();
  EXPECT_LT(loop_.metrics().turns, 10u) << "each wait would end at once";
  EXPECT_THAT(reports_, ElementsAre());
}

TEST_P(FdWatchPause, ReportsAHangUpThatCameMeanwhile) {
  start();
  watch().pause();
  far_.reset();
  run_turns();
  EXPECT_THAT(reports_, ElementsAre());
  watch().resume();
  loop_.poll();
  EXPECT_THAT(reports_, ElementsAre(readiness::readable | readiness::hang_up));
}

TEST_P(FdWatchPause, StartEndsIt) {
  start();
  watch().pause();
  arrive();
  run_turns();
  watch().start(readiness::readable | readiness::writable, GetParam());
  EXPECT_FALSE(watch().paused());
  loop_.poll();
  EXPECT_THAT(reports_, ElementsAre(readiness::readable | readiness::writable));
}

TEST_P(FdWatchPause, StopEndsItAndLeavesTheDescriptorToOthers) {
  start();
  watch().pause();
  arrive();
  run_turns();
  EXPECT_TRUE(watch().stop());
  EXPECT_FALSE(watch().paused());
  EXPECT_FALSE(watch().active());
  int calls = 0;
  fd_watch other(loop_, near_.get(), [&](readiness) { ++calls; });
  other.start(readiness::readable);
  loop_.poll();
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(reports_, ElementsAre());
}

TEST_P(FdWatchPause, KeepsTheDescriptorFromOthers) {
  start();
  watch().pause();
  fd_watch other(loop_, near_.get(), [](readiness) { FAIL(); });
  EXPECT_THROW(other.start(readiness::readable), std::system_error);
}

TEST_P(FdWatchPause, DoesNothingToAStoppedWatch) {
  watch().pause();
  EXPECT_FALSE(watch().paused());
  watch().resume();
  EXPECT_FALSE(watch().active());
  start();
  arrive();
  loop_.poll();
  EXPECT_THAT(reports_, ElementsAre(readiness::readable));
}

TEST_P(FdWatchPause, ResumeRefusesADescriptorThatWasClosedAfterAnEvent) {
  start();
  watch().pause();
  arrive();
  run_turns();
  near_.reset();
  EXPECT_THROW(watch().resume(), std::system_error);
  EXPECT_TRUE(watch().paused());
  EXPECT_TRUE(watch().stop());
  run_turns();
  EXPECT_THAT(reports_, ElementsAre());
}

TEST_P(FdWatchPause, DoesNotReportTheFileThatTakesAClosedDescriptorsNumber) {
  start();
  watch().pause();
  const int number = near_.get();
  near_.reset();
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
  near_ = unique_fd(ends[0]);
  far_ = unique_fd(ends[1]);
  ASSERT_EQ(near_.get(), number) << "the lowest free number";
  arrive();
  watch().resume();
  run_turns();
  EXPECT_THAT(reports_, ElementsAre()) << "the registration ended with the file";
  EXPECT_TRUE(watch().stop());
  start();
  loop_.poll();
  EXPECT_THAT(reports_, ElementsAre(readiness::readable));
}

TEST_P(FdWatchPause, OutlivesAFork) {
  start();
  watch().pause();
  arrive();
  run_turns();
  loop_.after_fork_in_child();
  run_turns();
  EXPECT_THAT(reports_, ElementsAre());
  watch().resume();
  loop_.poll();
  EXPECT_THAT(reports_, ElementsAre(readiness::readable));
}

}  // namespace
}  // namespace fd_watch_pause_test

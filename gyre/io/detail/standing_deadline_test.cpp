// SPDX-License-Identifier: Apache-2.0
// Tests of a poller's deadlines that have a timerfd; poller_test.cpp tests that waits end at them.
#include <gyre/io/epoll_poller.hpp>

#include <gyre/exec/poller.hpp>
#include <gyre/testing/system_call_faults.hpp>
#include <tests/support/socket_pairs.hpp>

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <cstddef>

namespace standing_deadline_test {
namespace {

using namespace std::chrono_literals;
using gyre::steady_time;
using gyre::testing::calls_made;
using gyre::testing::fault;

class StandingDeadline : public testing::Test {
 protected:
  // A descriptor that never becomes ready, as the poller waits in another way without any.
  struct silent_descriptor : gyre::readiness_operation {
    explicit silent_descriptor(int fd)
        : readiness_operation(fd, [](readiness_operation&, gyre::readiness) {}) {}
  };

  StandingDeadline() { poller_.watch(silent_, gyre::readiness::readable, gyre::trigger::level); }
  ~StandingDeadline() override { poller_.unwatch(silent_); }

  // Makes waits with this deadline that a wake-up ends at once.
  void wait_in_vain(steady_time deadline, int waits = 10) {
    for (int i = 0; i < waits; ++i) {
      poller_.wake();
      wait(deadline);
    }
  }
  void wait(steady_time deadline) {
    std::size_t completed = 0;
    poller_.wait(deadline);
    poller_.complete(completed);
    EXPECT_EQ(completed, 0u);
  }
  void wait_until(steady_time deadline) {
    while (poller_.now() < deadline) wait(deadline);
  }

  gyre::io::epoll_poller poller_;
  gyre::test::fd_pair ends_ = gyre::test::unix_pair();
  silent_descriptor silent_{ends_.first.get()};
};

TEST_F(StandingDeadline, WaitsThatShareADeadlineNeedNoTimeout) {
  const steady_time deadline = poller_.now() + 1h;
  wait_in_vain(deadline);
  const std::size_t timeouts = calls_made("epoll_pwait2");
  const std::size_t settings = calls_made("timerfd_settime");
  wait_in_vain(deadline);
  wait_in_vain(deadline + 1h);
  wait_in_vain(steady_time::max());
  EXPECT_EQ(calls_made("epoll_pwait2"), timeouts);
  EXPECT_EQ(calls_made("timerfd_settime"), settings);
}

TEST_F(StandingDeadline, WaitsThatShareNoneAreSetNone) {
  const std::size_t settings = calls_made("timerfd_settime");
  const int descriptors = gyre::testing::open_descriptors();
  for (int i = 0; i < 20; ++i) wait_in_vain(poller_.now() + 1h, 1);
  EXPECT_EQ(calls_made("timerfd_settime"), settings);
  EXPECT_EQ(gyre::testing::open_descriptors(), descriptors);
}

TEST_F(StandingDeadline, AnEarlierOneEndsItsWait) {
  wait_in_vain(poller_.now() + 1h);
  wait_until(poller_.now() + 100us);
  const steady_time earlier = poller_.now() + 30min;
  wait_in_vain(earlier);
  wait_until(poller_.now() + 100us);
}

// Whichever call fails, the deadline is a timeout again.
TEST_F(StandingDeadline, IsATimeoutWhereThereIsNoTimerfd) {
  for (const char* const call : {"timerfd_create", "epoll_ctl", "timerfd_settime"}) {
    const fault failing(call, ENOMEM);
    wait_in_vain(poller_.now() + 1h);
    EXPECT_EQ(failing.hits(), 1) << call;
    wait_until(poller_.now() + 1ms);
  }
  const steady_time deadline = poller_.now() + 1ms;
  wait_in_vain(deadline);
  wait_until(deadline);
}

TEST_F(StandingDeadline, TheChildOfAForkSetsItsOwn) {
  const steady_time deadline = poller_.now() + 1h;
  wait_in_vain(deadline);
  poller_.after_fork();  // as in a child
  wait_until(poller_.now() + 1ms);
  const std::size_t settings = calls_made("timerfd_settime");
  wait_in_vain(deadline + 1s);
  EXPECT_EQ(calls_made("timerfd_settime"), settings + 1);
}

}  // namespace
}  // namespace standing_deadline_test

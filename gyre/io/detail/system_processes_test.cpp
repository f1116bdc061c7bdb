// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/system_processes.hpp>

#include <gyre/testing/system_call_faults.hpp>

#include <gtest/gtest.h>

#include <sys/types.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <csignal>

namespace system_processes_test {
namespace {

namespace system = gyre::io::detail::system;
using gyre::testing::fault;

TEST(SystemProcesses, SignalQueueThatCannotBeOpenedIsAnError) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  {
    const fault none_left("signalfd", EMFILE);
    const auto queue = system::open_signal_queue(signals);
    ASSERT_FALSE(queue);
    EXPECT_EQ(queue.error(), EMFILE);
  }
  EXPECT_TRUE(system::open_signal_queue(signals));
}

TEST(SystemProcesses, NegativeGroupIsAnErrorNotTheGroupOfThisProcess) {
  std::array<char, 5> program{"true"};
  const std::array<char*, 2> arguments{program.data(), nullptr};
  const auto child = system::spawn({.arguments = arguments.data(), .group = -1});
  if (child) static_cast<void>(system::wait_for(P_PID, static_cast<id_t>(*child), WEXITED));
  ASSERT_FALSE(child);
  EXPECT_EQ(child.error(), EINVAL);
}

}  // namespace
}  // namespace system_processes_test

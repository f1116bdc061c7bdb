// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/system_processes.hpp>

#include <gyre/testing/system_call_faults.hpp>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace system_processes_test

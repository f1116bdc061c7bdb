// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/sync_wait.hpp>

#include <gtest/gtest.h>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/task/schedule.hpp>

namespace {

gyre::task<int> hop_to_and_fro(gyre::event_loop& there) {
  gyre::executor& home = co_await gyre::current_executor();
  int hops = 0;
  for (int i = 0; i < 1000; ++i) {
    co_await gyre::resume_on(there);
    hops += there.in_loop_thread() ? 1 : 0;
    co_await gyre::resume_on(home);
    hops += home.running_here() ? 1 : 0;
  }
  co_return hops;
}

TEST(SyncWaitOnALoop, CoroutineHopsBetweenLoops) {
  gyre::loop loop;
  gyre::loop_thread other;
  EXPECT_EQ(gyre::sync_wait(loop, hop_to_and_fro(other.loop())), 2000);
}

}  // namespace

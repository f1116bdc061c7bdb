// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/timing.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace lab {
namespace timing_test {
namespace {

using namespace std::chrono_literals;

void spin(std::chrono::nanoseconds length) {
  const auto until = clock::now() + length;
  while (clock::now() < until) {
  }
}

TEST(Stopwatch, SecondsCoverTheWork) {
  stopwatch watch;
  watch.start();
  spin(2ms);
  watch.stop();
  EXPECT_GE(watch.seconds(), 0.002);
}

TEST(Stopwatch, HandicapMakesTheStretchLongerByItsShare) {
  stopwatch watch(50);
  const auto before = clock::now();
  watch.start();
  spin(4ms);
  watch.stop();
  EXPECT_GE(watch.seconds(), 0.006);
  EXPECT_LE(watch.seconds(), std::chrono::duration<double>(clock::now() - before).count());
}

TEST(Stopwatch, StartsAnew) {
  stopwatch watch;
  watch.start();
  spin(5ms);
  const auto before = clock::now();
  watch.start();
  watch.stop();
  EXPECT_LE(watch.seconds(), std::chrono::duration<double>(clock::now() - before).count());
}

TEST(CpuSeconds, CountsWorkOfAllThreadsAndNoWaiting) {
  const double before = cpu_seconds();
  std::jthread([before] {
    while (cpu_seconds() < before + 0.002) {
    }
  }).join();
  const double worked = cpu_seconds();
  EXPECT_GE(worked - before, 0.002);
  const auto begin = clock::now();
  std::this_thread::sleep_for(20ms);
  const double used = cpu_seconds() - worked;
  EXPECT_LT(used, std::chrono::duration<double>(clock::now() - begin).count());
}

TEST(ThreadCpuSeconds, LeavesOutOtherThreads) {
  const double all_before = cpu_seconds();
  const double own_before = thread_cpu_seconds();
  std::jthread([all_before] {
    while (cpu_seconds() < all_before + 0.002) {
    }
  }).join();
  const double own = thread_cpu_seconds() - own_before;
  EXPECT_GE(own, 0);
  EXPECT_LT(own, cpu_seconds() - all_before);
}

TEST(CompletionEvent, SetBeforeTheWaitIsNotMissed) {
  completion_event completion;
  completion.set();
  EXPECT_TRUE(completion.wait([] { return 0; }));
}

TEST(CompletionEvent, EachSetEndsOneWait) {
  completion_event completion;
  completion.set();
  EXPECT_TRUE(completion.wait([] { return 0; }));
  EXPECT_FALSE(completion.wait([] { return 0; }, 1ms));
}

TEST(CompletionEvent, WorkThatStandsStillIsGivenUp) {
  completion_event completion;
  EXPECT_FALSE(completion.wait([] { return 7; }, 5ms));
}

TEST(CompletionEvent, SlowWorkThatMovesIsWaitedFor) {
  completion_event completion;
  std::atomic<int> looks = 0;
  std::jthread worker([&] {
    while (looks.load() < 5) std::this_thread::yield();
    completion.set();
  });
  EXPECT_TRUE(completion.wait([&] { return ++looks; }, 2ms));
}

}  // namespace
}  // namespace timing_test
}  // namespace lab

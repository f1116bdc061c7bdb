// SPDX-License-Identifier: Apache-2.0
// Tests of the sleep gate. Its model test shows that no interleaving loses a wake-up.
#include <gyre/exec/detail/sleep_gate.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <semaphore>
#include <thread>
#include <vector>

namespace sleep_gate_test {
namespace {

using gyre::detail::sleep_gate;

TEST(SleepGate, AsksForNoWakeUpWhileAwake) {
  sleep_gate gate(false);
  EXPECT_FALSE(gate.claim_remote_wake_up());
  gate.fall_asleep();
  gate.wake_up();
  EXPECT_FALSE(gate.claim_remote_wake_up());
}

TEST(SleepGate, AsksForOneWakeUpPerSleep) {
  sleep_gate gate(false);
  for (int sleep = 0; sleep < 3; ++sleep) {
    gate.fall_asleep();
    EXPECT_TRUE(gate.claim_remote_wake_up());
    EXPECT_FALSE(gate.claim_remote_wake_up());
    gate.wake_up();
  }
}

TEST(SleepGate, AsksOneOfManyThreads) {
  sleep_gate gate(false);
  for (int sleep = 0; sleep < 50; ++sleep) {
    gate.fall_asleep();
    std::atomic<int> asked = 0;
    std::latch start(4);
    {
      std::vector<std::jthread> producers;
      for (int i = 0; i < 4; ++i) {
        producers.emplace_back([&] {
          start.arrive_and_wait();
          asked += gate.claim_remote_wake_up() ? 1 : 0;
        });
      }
    }
    EXPECT_EQ(asked, 1);
    gate.wake_up();
  }
}

TEST(SleepGate, IsBusyWhileOtherThreadsPostMuch) {
  sleep_gate gate(false);
  gate.note_many_tasks();
  EXPECT_FALSE(gate.is_busy());
  EXPECT_FALSE(gate.claim_remote_wake_up());
  gate.note_many_tasks();
  EXPECT_TRUE(gate.is_busy());
  EXPECT_TRUE(gate.fall_asleep());
  EXPECT_FALSE(gate.is_busy());
  gate.wake_up(true);
  EXPECT_TRUE(gate.is_busy());
  EXPECT_TRUE(gate.fall_asleep());
  gate.wake_up();
  EXPECT_FALSE(gate.is_busy());
  EXPECT_FALSE(gate.fall_asleep());
  EXPECT_TRUE(gate.claim_remote_wake_up());
  gate.wake_up();
  EXPECT_FALSE(gate.is_busy()) << "one wake-up is not much";
  gate.note_many_tasks();
  EXPECT_TRUE(gate.is_busy()) << "another thread has woken it";
}

TEST(SleepGate, IsNotBusyWithItsOwnThreadsPosts) {
  sleep_gate gate(false);
  EXPECT_FALSE(gate.claim_wake_up());
  gate.note_many_tasks();
  EXPECT_FALSE(gate.is_busy());
  EXPECT_FALSE(gate.fall_asleep());
  EXPECT_TRUE(gate.claim_wake_up()) << "a signal handler's, which calls stop()";
  EXPECT_FALSE(gate.claim_wake_up());
  gate.wake_up();
  EXPECT_FALSE(gate.is_busy());
}

TEST(SleepGate, ThatAlwaysWakesAsksEveryTime) {
  sleep_gate gate(true);
  EXPECT_TRUE(gate.claim_remote_wake_up());
  gate.fall_asleep();
  EXPECT_TRUE(gate.claim_remote_wake_up());
  EXPECT_TRUE(gate.claim_remote_wake_up());
  gate.wake_up();
  EXPECT_TRUE(gate.claim_remote_wake_up());
}

// Hangs if a wake-up is lost: the sleeper waits for a task that is there.
TEST(SleepGate, LosesNoWakeUp) {
  constexpr int rounds = 20'000;
  sleep_gate gate(false);
  std::atomic<int> posted = 0;
  std::atomic<int> taken = 0;
  std::counting_semaphore<> sleeper(0);  // keeps a late wake-up, as an eventfd does
  int wakeups = 0;
  std::jthread producer([&] {
    for (int round = 1; round <= rounds; ++round) {
      posted.store(round, std::memory_order_release);
      if (gate.claim_remote_wake_up()) {
        ++wakeups;
        sleeper.release();
      }
      while (taken.load(std::memory_order_acquire) != round) std::this_thread::yield();
    }
  });
  for (int round = 1; round <= rounds; ++round) {
    while (posted.load(std::memory_order_acquire) != round) {
      const bool was_busy = gate.fall_asleep();
      if (posted.load(std::memory_order_acquire) != round) sleeper.acquire();
      gate.wake_up(was_busy && round % 3 != 0);
    }
    gate.note_many_tasks();
    taken.store(round, std::memory_order_release);
  }
  producer.join();
  EXPECT_LE(wakeups, rounds);
}

}  // namespace
}  // namespace sleep_gate_test

// SPDX-License-Identifier: Apache-2.0
//
// Model tests of the sleep protocol: no wake-up is lost, and none is sent needlessly.
//
// Each of these mutations, tried by hand, makes a test fail: the light fence is omitted; a
// producer's full fence is omitted; the loop's heavy fence is omitted, or its full fence; the loop
// has a full fence where it was busy; a load replaces the compare-exchange.
#include <gyre/exec/detail/sleep_gate.hpp>

#include <gyre/base/atomic.hpp>
#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <array>

namespace {

namespace model = gyre::model;
using gyre::detail::sleep_gate;

// A loop and its poller, reduced to the protocol. Each producer has a flag of its own instead of an
// inbox, whose memory order would hide errors of the protocol.
struct sleeper {
  explicit sleeper(bool always) : gate(always) {}

  void post(std::size_t producer) {
    tasks[producer].store(true, std::memory_order_release);
    wake(gate.claim_remote_wake_up());
  }
  void post_from_own_thread(std::size_t producer) {
    tasks[producer].store(true, std::memory_order_release);
    wake(gate.claim_wake_up());
  }
  void wake(bool needed) {
    if (!needed) return;
    wakes.fetch_add(1, std::memory_order_relaxed);
    poller.wake();
  }
  bool ready() const {
    for (const auto& each : tasks) {
      if (each.load(std::memory_order_acquire)) return true;
    }
    return false;
  }
  int run_tasks() {
    int ran = 0;
    for (auto& each : tasks) {
      if (!each.load(std::memory_order_acquire)) continue;
      each.store(false, std::memory_order_relaxed);
      ++ran;
    }
    if (ran > 0) gate.note_many_tasks();
    return ran;
  }
  void run(int expected) {
    for (int ran = run_tasks(); ran < expected; ran += run_tasks()) {
      ++naps;
      const bool was_busy = gate.fall_asleep();
      if (!ready()) poller.wait();
      gate.wake_up(was_busy && stays_busy);
    }
  }

  sleep_gate gate;
  model::event poller;
  std::array<gyre::detail::atomic<bool>, 3> tasks{};
  gyre::detail::atomic<int> wakes{0};
  int naps = 0;
  bool stays_busy = false;
};

TEST(SleepGateModel, NoPostIsSleptThrough) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    sleeper loop(false);
    model::thread producer([&] { loop.post(0); });
    loop.run(1);
    producer.join();
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

TEST(SleepGateModel, NoPostIsSleptThroughByALoopThatIsBusyNowAndThen) {
  for (const bool stays_busy : {false, true}) {
    const auto checked = model::check({.preemptions = 2}, [=] {
      sleeper loop(false);
      loop.stays_busy = stays_busy;
      model::thread producer([&] {
        loop.post(0);
        loop.post(1);
        loop.post(2);
      });
      loop.run(3);
      producer.join();
    });
    EXPECT_TRUE(checked) << checked;
  }
}

TEST(SleepGateModel, TheLoopsOwnPostsNeedNoFence) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    sleeper loop(false);
    loop.post_from_own_thread(1);
    model::thread producer([&] { loop.post(0); });
    loop.run(2);
    producer.join();
    model::assert_that(loop.wakes.load(std::memory_order_relaxed) <= 1, "none for its own");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(SleepGateModel, ProducersTogetherWakeOncePerNap) {
  const auto checked = model::check({.preemptions = 3}, [] {
    sleeper loop(false);
    {
      model::thread one([&] { loop.post(0); });
      model::thread other([&] { loop.post(1); });
      loop.run(2);
    }
    model::assert_that(loop.wakes.load(std::memory_order_relaxed) <= loop.naps,
                       "one wake-up per nap at most");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(SleepGateModel, PerTaskModeWakesWithEveryTask) {
  const auto checked = model::check({.preemptions = 3}, [] {
    sleeper loop(true);
    {
      model::thread one([&] { loop.post(0); });
      model::thread other([&] { loop.post(1); });
      loop.run(2);
    }
    model::assert_that(loop.wakes.load(std::memory_order_relaxed) == 2, "a wake-up per task");
  });
  EXPECT_TRUE(checked) << checked;
}

}  // namespace

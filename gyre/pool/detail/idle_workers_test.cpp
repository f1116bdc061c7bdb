// SPDX-License-Identifier: Apache-2.0
// Tests of the sleep of idle workers, with real sleeps, deadlines and many threads. The model test
// shows that no interleaving loses a wake-up.
#include <gyre/pool/detail/idle_workers.hpp>

#include <gyre/base/fence.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

namespace idle_workers_test {
namespace {

using gyre::detail::idle_workers;
using gyre::detail::monotonic_now;
using gyre::detail::parker;
using namespace std::chrono_literals;

bool nothing() { return false; }

void wait_for_sleepers(const idle_workers& idle, std::size_t sleepers) {
  while (idle.sleepers() != sleepers) std::this_thread::yield();
}

// A worker that parks at once.
class sleeping_worker {
 public:
  explicit sleeping_worker(idle_workers& idle)
      : thread_([this, &idle] {
          is_searching_ = idle.park(me_, nothing);
          awake_.store(true, std::memory_order_release);
          awake_.notify_one();
        }) {}
  bool awake() const { return awake_.load(std::memory_order_acquire); }
  // Waits until the worker is awake; returns whether it searches.
  bool searches() const {
    awake_.wait(false, std::memory_order_acquire);
    return is_searching_;
  }
  // Only once the worker is awake.
  parker& me() { return me_; }

 private:
  parker me_;
  bool is_searching_ = false;
  std::atomic<bool> awake_{false};
  std::jthread thread_;
};

TEST(IdleWorkers, LetHalfOfTheWorkersSearchAtATime) {
  idle_workers idle(4);
  parker first;
  parker second;
  parker third;
  EXPECT_TRUE(idle.start_searching(first));
  EXPECT_TRUE(idle.start_searching(second));
  EXPECT_TRUE(idle.start_searching(second));
  EXPECT_EQ(idle.searchers(), 2);
  EXPECT_FALSE(idle.start_searching(third));
  EXPECT_FALSE(third.is_searching());
  idle.end_search(first);
  EXPECT_TRUE(idle.start_searching(third));
  idle.end_search(second);
  idle.end_search(second);
  EXPECT_EQ(idle.searchers(), 1);
}

TEST(IdleWorkers, LetTheOnlyWorkerSearch) {
  idle_workers idle(1);
  parker me;
  EXPECT_TRUE(idle.start_searching(me));
}

TEST(IdleWorkers, AllowMoreSearchersInAPoolThatHasGrown) {
  idle_workers idle(2);
  parker first;
  parker second;
  parker third;
  EXPECT_TRUE(idle.start_searching(first));
  EXPECT_TRUE(idle.start_searching(second));
  EXPECT_FALSE(idle.start_searching(third));
  idle.resize(6);
  EXPECT_TRUE(idle.start_searching(third));
}

TEST(IdleWorkers, DoNotSleepWhileThereIsWork) {
  idle_workers idle(2);
  parker me;
  EXPECT_TRUE(idle.park(me, [] { return true; }));
  EXPECT_TRUE(me.is_searching());
  EXPECT_EQ(idle.sleepers(), 0);
  EXPECT_EQ(idle.searchers(), 1);
}

TEST(IdleWorkers, AreNoLongerSearchersWhenTheyTakeTheirLastLook) {
  idle_workers idle(2);
  parker me;
  ASSERT_TRUE(idle.start_searching(me));
  std::optional<std::size_t> searchers;
  std::optional<std::size_t> sleepers;
  EXPECT_TRUE(idle.park(me, [&] {
    searchers = idle.searchers();
    sleepers = idle.sleepers();
    return true;
  }));
  EXPECT_EQ(searchers, 0);
  EXPECT_EQ(sleepers, 1);
}

TEST(IdleWorkers, SleepUntilTheDeadlineAndSearchNoMore) {
  idle_workers idle(2);
  parker me;
  ASSERT_TRUE(idle.start_searching(me));
  const gyre::steady_time deadline = monotonic_now() + 5ms;
  EXPECT_FALSE(idle.park(me, nothing, deadline));
  EXPECT_GE(monotonic_now(), deadline);
  EXPECT_FALSE(me.is_searching());
  EXPECT_EQ(idle.sleepers() + idle.searchers(), 0);
  EXPECT_EQ(idle.wakes(), 0);
}

TEST(IdleWorkers, DoNotWaitForADeadlineThatHasPassed) {
  idle_workers idle(2);
  parker me;
  EXPECT_FALSE(idle.park(me, nothing, gyre::steady_time{} - 1s));
}

TEST(IdleWorkers, AreNotifiedBeforeTheirDeadline) {
  idle_workers idle(2);
  std::jthread notifier([&] {
    wait_for_sleepers(idle, 1);
    idle.notify();
  });
  parker me;
  EXPECT_TRUE(idle.park(me, nothing, monotonic_now() + 1h));
  EXPECT_TRUE(me.is_searching());
}

TEST(IdleWorkers, WakeInTheOppositeOrderInWhichTheyLayDown) {
  idle_workers idle(2);
  sleeping_worker first(idle);
  wait_for_sleepers(idle, 1);
  sleeping_worker second(idle);
  wait_for_sleepers(idle, 2);
  idle.notify();
  EXPECT_TRUE(second.searches());
  EXPECT_FALSE(first.awake());
  idle.notify_all();
}

TEST(IdleWorkers, AreLeftAloneWhileOneSearches) {
  idle_workers idle(2);
  sleeping_worker sleeper(idle);
  wait_for_sleepers(idle, 1);
  parker me;
  ASSERT_TRUE(idle.start_searching(me));
  idle.notify();
  EXPECT_EQ(idle.sleepers(), 1);
  idle.end_search(me, nothing);
  EXPECT_EQ(idle.sleepers(), 1);
  idle.notify();
  EXPECT_TRUE(sleeper.searches());
  EXPECT_EQ(idle.wakes(), 1);
}

TEST(IdleWorkers, AreWokenByTheLastSearcherThatFoundWork) {
  idle_workers idle(4);
  sleeping_worker sleeper(idle);
  wait_for_sleepers(idle, 1);
  parker one;
  parker other;
  ASSERT_TRUE(idle.start_searching(one) && idle.start_searching(other));
  idle.end_search(one);
  EXPECT_EQ(idle.sleepers(), 1);
  idle.end_search(other);
  EXPECT_TRUE(sleeper.searches());
}

TEST(IdleWorkers, WakeOneAfterTheOtherAsEachFindsWork) {
  idle_workers idle(3);
  sleeping_worker first(idle);
  wait_for_sleepers(idle, 1);
  sleeping_worker second(idle);
  wait_for_sleepers(idle, 2);
  idle.notify();
  idle.notify();
  ASSERT_TRUE(second.searches());
  EXPECT_EQ(idle.sleepers(), 1);
  idle.end_search(second.me(), [] { return true; });
  EXPECT_TRUE(first.searches());
}

TEST(IdleWorkers, AreAllWokenByNotifyAll) {
  idle_workers idle(3);
  {
    sleeping_worker one(idle);
    sleeping_worker two(idle);
    sleeping_worker three(idle);
    wait_for_sleepers(idle, 3);
    idle.notify_all();
    EXPECT_TRUE(one.searches() && two.searches() && three.searches());
  }
  EXPECT_EQ(idle.searchers(), 3);
  EXPECT_EQ(idle.wakes(), 3);
}

TEST(IdleWorkers, AreBusyOnceManyNotificationsHaveCome) {
  idle_workers idle(2, 3);
  idle.notify();
  idle.notify();
  EXPECT_FALSE(idle.are_busy());
  idle.notify();
  EXPECT_TRUE(idle.are_busy());
  idle.notify();
  EXPECT_TRUE(idle.are_busy());
}

TEST(IdleWorkers, AreNotBusyIfOneFallsAsleepBetweenNotifications) {
  idle_workers idle(2, 2);
  parker me;
  for (int sleep = 0; sleep < 3; ++sleep) {
    idle.notify();
    EXPECT_FALSE(idle.park(me, nothing, gyre::steady_time{}));
    EXPECT_FALSE(idle.are_busy());
  }
}

TEST(IdleWorkers, AreBusyUntilTheLastFallsAsleep) {
  idle_workers idle(2, 1);
  idle.notify();
  sleeping_worker first(idle);
  wait_for_sleepers(idle, 1);
  EXPECT_TRUE(idle.are_busy());
  sleeping_worker second(idle);
  wait_for_sleepers(idle, 2);
  EXPECT_FALSE(idle.are_busy());
  idle.notify_all();
}

TEST(IdleWorkers, CountNotificationsAnewNowAndThen) {
  idle_workers idle(2, 1);
  idle.notify();
  parker me;
  int sleeps = 0;
  while (idle.are_busy() && sleeps < 1'000) {
    ++sleeps;
    EXPECT_FALSE(idle.park(me, nothing, gyre::steady_time{}));
  }
  EXPECT_EQ(sleeps, 64);
}

// The workers sleep again and again, as each producer waits until its task has run. Hangs if a
// wake-up is lost.
void run_tasks(std::size_t producers, std::size_t workers, bool with_deadlines,
               std::uint32_t many = idle_workers::default_busy_threshold) {
  constexpr int tasks_each = 3'000;
  idle_workers idle(workers, many);
  std::vector<std::atomic<int>> asked(producers);
  std::vector<std::atomic<int>> done(producers);
  std::atomic<bool> over{false};
  const auto has_work = [&] {
    for (std::size_t i = 0; i < producers; ++i) {
      if (asked[i].load(std::memory_order_acquire) != done[i].load(std::memory_order_acquire)) {
        return true;
      }
    }
    return over.load(std::memory_order_acquire);
  };
  const auto work = [&](parker& me) {
    bool found = false;
    for (std::size_t i = 0; i < producers; ++i) {
      int before = done[i].load(std::memory_order_acquire);
      if (asked[i].load(std::memory_order_acquire) == before) continue;
      found = true;
      idle.end_search(me);
      done[i].compare_exchange_strong(before, before + 1);
    }
    return found;
  };
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < workers; ++i) {
    threads.emplace_back([&] {
      parker me;
      while (!over.load(std::memory_order_acquire)) {
        if (idle.start_searching(me) && work(me)) continue;
        const auto deadline = with_deadlines ? monotonic_now() + 20us : gyre::steady_time::max();
        if (!idle.park(me, has_work, deadline)) work(me);
      }
      idle.end_search(me);
    });
  }
  {
    std::vector<std::jthread> producing;
    for (std::size_t i = 0; i < producers; ++i) {
      producing.emplace_back([&, i] {
        for (int task = 1; task <= tasks_each; ++task) {
          asked[i].store(task, std::memory_order_release);
          idle.notify();
          while (done[i].load(std::memory_order_acquire) != task) std::this_thread::yield();
        }
      });
    }
  }
  over.store(true, std::memory_order_release);
  idle.notify_all();
  threads.clear();
  EXPECT_EQ(idle.sleepers() + idle.searchers(), 0);
}

TEST(IdleWorkersStress, LoseNoWakeUp) { run_tasks(2, 2, false); }

TEST(IdleWorkersStress, LoseNoWakeUpWhileTheyAreBusyNowAndThen) { run_tasks(2, 2, false, 4); }

TEST(IdleWorkersStress, LoseNoWakeUpAmongMany) { run_tasks(3, 4, false); }

TEST(IdleWorkersStress, LoseNoWakeUpAsDeadlinesPass) { run_tasks(2, 3, true); }

TEST(IdleWorkersStress, LoseNoWakeUpWithoutMembarrier) {
  gyre::detail::force_symmetric_fences(true);
  run_tasks(2, 2, false);
  gyre::detail::force_symmetric_fences(false);
}

}  // namespace
}  // namespace idle_workers_test

// SPDX-License-Identifier: Apache-2.0
//
// Tests that the checker finds lost wake-ups, deadlocks and livelocks, and accepts only correct
// locks.
#include <tests/model/model.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <mutex>

namespace {

namespace model = gyre::model;
using model::check;
using testing::HasSubstr;

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;
constexpr auto acq_rel = std::memory_order_acq_rel;
constexpr auto seq_cst = std::memory_order_seq_cst;

using fence = std::function<void()>;
const fence none = [] {};
const fence light = [] { model::asymmetric_light_fence(); };
const fence heavy = [] { model::asymmetric_heavy_fence(); };
const fence full = [] { model::thread_fence(seq_cst); };
// A sleeper announces its sleep and checks for work again; a poster posts and checks for a sleeper.
auto sleep_and_wake(const fence& sleeper_fence, const fence& poster_fence) {
  return check({.preemptions = model::unlimited}, [=] {
    model::atomic<int> tasks{0};
    model::atomic<bool> sleeping{false};
    model::event poller;
    model::thread poster([&] {
      tasks.store(1, release);
      poster_fence();
      if (sleeping.load(relaxed) && sleeping.exchange(false, acq_rel)) poller.wake();
    });
    while (tasks.load(acquire) == 0) {
      sleeping.store(true, relaxed);
      sleeper_fence();
      if (tasks.load(acquire) == 0) poller.wait();
      sleeping.store(false, relaxed);
    }
    poster.join();
  });
}

TEST(Liveness, LostWakeUpsAreFound) {
  const auto lost = sleep_and_wake(none, none);
  EXPECT_THAT(lost.failure, HasSubstr("nobody is left to wake it")) << lost;
  EXPECT_THAT(sleep_and_wake(heavy, none).failure, HasSubstr("deadlock"));
  EXPECT_THAT(sleep_and_wake(none, light).failure, HasSubstr("deadlock"));
  EXPECT_THAT(sleep_and_wake(full, light).failure, HasSubstr("deadlock"));
  const auto asymmetric = sleep_and_wake(heavy, light);
  EXPECT_TRUE(asymmetric) << asymmetric;
  EXPECT_TRUE(asymmetric.exhaustive);
  const auto symmetric = sleep_and_wake(full, full);
  EXPECT_TRUE(symmetric) << symmetric;
}

TEST(Liveness, AWrongFlagDoesNotExclude) {
  const auto found = check({}, [] {
    model::atomic<bool> taken{false};
    int inside = 0;
    const auto enter = [&] {
      while (taken.load()) model::yield();
      taken.store(true);  // too late: another thread may have entered since the load
      ++inside;
      taken.store(false);
    };
    model::thread other(enter);
    enter();
    other.join();
  });
  EXPECT_THAT(found.failure, HasSubstr("data race"));
}

TEST(Liveness, ASpinLockExcludes) {
  const auto found = check({}, [] {
    model::atomic<bool> taken{false};
    int inside = 0;
    const auto enter = [&] {
      while (taken.exchange(true, acquire)) model::yield();
      ++inside;
      taken.store(false, release);
    };
    model::thread first(enter);
    model::thread second(enter);
    enter();
    first.join();
    second.join();
    model::assert_that(inside == 3, "everyone was inside");
  });
  EXPECT_TRUE(found) << found;
}

TEST(Liveness, MutexesExcludeAndDeadlock) {
  EXPECT_TRUE(check({}, [] {
    std::mutex mutex;
    int inside = 0;
    const auto enter = [&] {
      const std::lock_guard lock(mutex);
      ++inside;
    };
    model::thread other(enter);
    enter();
    other.join();
  }));
  EXPECT_THAT(check({},
                    [] {
                      std::mutex a;
                      std::mutex b;
                      model::thread other([&] {
                        const std::lock_guard first(b);
                        const std::lock_guard second(a);
                      });
                      {
                        const std::lock_guard first(a);
                        const std::lock_guard second(b);
                      }
                      other.join();
                    })
                  .failure,
              HasSubstr("deadlock"));
}

TEST(Liveness, SpinningForWhatNeverComesIsALivelock) {
  const auto found = check({.max_steps = 200}, [] {
    model::atomic<bool> never{false};
    while (!never.load()) model::yield();
  });
  EXPECT_THAT(found.failure, HasSubstr("livelock"));
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
//
// Model tests of parking: no wake-up is lost, even by a waiter that alternates between parking and
// polling, and no needless system call is made.
//
// Mutations, tried by hand one at a time, and the tests that fail:
//   park() waits whatever the compare-exchange returns: AParkAfterAWakeUp…
//   park() stores `parked` over any state and waits: all but …BetweenADeadlineAndPolling
//   park() loads and stores in place of the compare-exchange: OneWakeUp…, AWakeUpThatMeets…,
//     …OfTwoIsLost, OnlyWhoFinds…, …ToASignal, …FromParkingToPolling
//   park() leaves by a store (of any order, or after an acquiring load), by a relaxed exchange, or
//     not at all: AWakeUpThatMeets…, …OfTwoIsLost, …ToASignal, …FromParkingToPolling,
//     …BetweenADeadlineAndPolling
//   unpark() exchanges relaxed: these and OneWakeUp…
//   unpark() stores `notified` only for a parked parker: all but …BetweenADeadlineAndPolling
//   unpark() calls the futex for a parker that has been woken: …OfTwoIsLost, OnlyWhoFinds…
//   unpark() calls no futex: all but AParkAfterAWakeUp…, …FromPollingToParking and
//     …BetweenADeadlineAndPolling
//   unpark() returns true though no thread was parked: OnlyWhoFinds… and the three that poll
//   unpark() returns false though it woke the parker: OnlyWhoFinds…
#include <gyre/io/detail/thread_parker.hpp>

#include <gyre/base/atomic.hpp>
#include <gyre/base/clock.hpp>
#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace {

namespace model = gyre::model;
using gyre::steady_time;

constexpr auto relaxed = std::memory_order_relaxed;
constexpr steady_time for_ever = steady_time::max();
constexpr steady_time until_past{};

// futex(2), for one owner: checks the word and sleeps in one step, as seen by wakers.
struct model_futex {
  static void wait(const gyre::detail::atomic<std::uint32_t>& word, std::uint32_t expected,
                   steady_time deadline) {
    ++waits;
    if (deadline != for_ever) return;
    {
      const std::lock_guard bucket(kernel);
      if (word.load(relaxed) != expected) return;
      asleep = true;
    }
    bed.wait();
  }
  static void wake_one(const gyre::detail::atomic<std::uint32_t>&) {
    const std::lock_guard bucket(kernel);
    ++wakes;
    get_up();
  }
  // A signal handler runs on the parker's thread.
  static void interrupt() {
    const std::lock_guard bucket(kernel);
    get_up();
  }

  static inline int waits = 0;  // system calls of either kind
  static inline int wakes = 0;

 private:
  static void get_up() {
    if (!asleep) return;
    asleep = false;
    bed.wake();
  }

  static inline std::mutex kernel;
  static inline bool asleep = false;
  static inline model::event bed;
};

using thread_parker = gyre::detail::basic_thread_parker<model_futex>;

// A poller reduced to its two ways of waiting. Each waker has a flag of its own, which only the
// wake-up makes visible.
struct waiter {
  void park(steady_time deadline) {
    ++parks;
    parker.park(deadline);
  }
  void poll() { descriptor.wait(); }
  void wake() {
    if (!parker.unpark()) descriptor.wake();
  }
  void post(std::size_t waker) {
    posted[waker].store(true, relaxed);
    wake();
  }
  bool has(std::size_t wakers) const {
    for (std::size_t waker = 0; waker < wakers; ++waker) {
      if (!posted[waker].load(relaxed)) return false;
    }
    return true;
  }

  thread_parker parker;
  model::event descriptor;  // an eventfd that is watched edge-triggered
  std::array<gyre::detail::atomic<bool>, 2> posted{};
  int parks = 0;
};

TEST(ThreadParkerModel, OneWakeUpBeforeOrDuringAParkEndsIt) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    thread_parker parker;
    int posted = 0;
    model::thread waker([&] {
      posted = 42;
      parker.unpark();
    });
    parker.park(for_ever);
    model::assert_that(posted == 42, "what came before the wake-up is visible");
    waker.join();
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

TEST(ThreadParkerModel, AParkAfterAWakeUpReturnsWithoutASystemCall) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    thread_parker parker;
    model::thread waker([&] { parker.unpark(); });
    waker.join();
    parker.park(for_ever);
    model::assert_that(model_futex::waits == 0 && model_futex::wakes == 0, "no system call");
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

TEST(ThreadParkerModel, AWakeUpThatMeetsTheDeadlineIsSeenAtOnceOrEndsTheNextPark) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    waiter waits;
    model::thread waker([&] { waits.post(0); });
    waits.park(until_past);
    while (!waits.has(1)) waits.park(for_ever);
    waker.join();
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

TEST(ThreadParkerModel, NoWakeUpOfTwoIsLost) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    waiter waits;
    {
      model::thread one([&] { waits.post(0); });
      model::thread other([&] { waits.post(1); });
      for (bool first = true; !waits.has(2); first = false) {
        waits.park(first ? until_past : for_ever);
      }
    }
    model::assert_that(model_futex::wakes <= waits.parks, "one system call per park at most");
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

TEST(ThreadParkerModel, OnlyWhoFindsTheParkerParkedMakesTheSystemCall) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    thread_parker parker;
    gyre::detail::atomic<int> found{0};
    {
      const auto wake = [&] { found.fetch_add(parker.unpark() ? 1 : 0, relaxed); };
      model::thread one(wake);
      model::thread other(wake);
      parker.park(for_ever);
    }
    model::assert_that(found.load(relaxed) == model_futex::wakes, "it says what it did");
    model::assert_that(model_futex::wakes <= 1, "one system call per park at most");
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

TEST(ThreadParkerModel, NoWakeUpIsLostToASignal) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    waiter waits;
    {
      model::thread waker([&] { waits.post(0); });
      model::thread signal([] { model_futex::interrupt(); });
      while (!waits.has(1)) waits.park(for_ever);
    }
    model::assert_that(model_futex::wakes <= waits.parks, "one system call per park at most");
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

// Parameter: the first of the two ways of waiting: the first descriptor is added, or the last
// removed.
void switch_between(bool polls_first) {
  const auto checked = model::check({.preemptions = model::unlimited}, [=] {
    waiter waits;
    {
      model::thread one([&] { waits.post(0); });
      model::thread other([&] { waits.post(1); });
      for (bool polls = polls_first; !waits.has(2); polls = !polls) {
        if (polls) {
          waits.poll();
        } else {
          waits.park(for_ever);
        }
      }
    }
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

TEST(ThreadParkerModel, NoWakeUpIsLostFromParkingToPolling) { switch_between(false); }
TEST(ThreadParkerModel, NoWakeUpIsLostFromPollingToParking) { switch_between(true); }

TEST(ThreadParkerModel, NoWakeUpIsLostBetweenADeadlineAndPolling) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    waiter waits;
    model::thread waker([&] { waits.post(0); });
    waits.park(until_past);
    while (!waits.has(1)) waits.poll();
    waker.join();
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

}  // namespace

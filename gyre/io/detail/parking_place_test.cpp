// SPDX-License-Identifier: Apache-2.0
// Tests of the parking place on the system's futex; its model test shows that it loses no wake-up.
#include <gyre/io/detail/parking_place.hpp>

#include <gtest/gtest.h>
#include <gyre/base/clock.hpp>
#include <tests/support/system_call_faults.hpp>

#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <stop_token>
#include <thread>
#include <vector>

namespace parking_place_test {
namespace {

using namespace std::chrono_literals;
using gyre::steady_time;
using gyre::detail::monotonic_now;
using gyre::detail::parking_place;

constexpr steady_time for_ever = steady_time::max();

TEST(ParkingPlace, ParksUntilTheDeadline) {
  parking_place place;
  for (const std::chrono::nanoseconds delay : {1ns, 100'000ns, 2'000'000ns}) {
    const steady_time deadline = monotonic_now() + delay;
    int parks = 0;
    for (; monotonic_now() < deadline; ++parks) place.park(deadline);
    EXPECT_LE(parks, 3) << "it must not return early, unless for no reason";
  }
}

TEST(ParkingPlace, MayReturnEarlyWhereTheKernelDoesNotWait) {
  parking_place place;
  for (const int error : {EINTR, EAGAIN, ENOMEM}) {
    const gyre::test::fault failing("syscall", error);
    place.park(for_ever);
    EXPECT_EQ(failing.hits(), 1);
  }
  EXPECT_FALSE(place.wake()) << "nobody is parked";
  place.park(for_ever);
}

TEST(ParkingPlace, DoesNotWaitForADeadlineThatHasPassed) {
  parking_place place;
  place.park(monotonic_now() - 1s);
  place.park(steady_time{});
  place.park(steady_time{-1s});
  place.park(steady_time::min());
  EXPECT_FALSE(place.wake()) << "and parks no more";
}

TEST(ParkingPlace, AWakeUpBeforeMakesTheNextParkReturnAtOnce) {
  parking_place place;
  EXPECT_FALSE(place.wake()) << "nobody is parked";
  EXPECT_FALSE(place.wake()) << "still nobody";
  place.park(for_ever);
}

TEST(ParkingPlace, WakeUpsBeforeEndOneParkOnly) {
  parking_place place;
  place.wake();
  place.wake();
  place.park(for_ever);
  const steady_time deadline = monotonic_now() + 1ms;
  int parks = 0;
  for (; monotonic_now() < deadline; ++parks) place.park(deadline);
  EXPECT_LE(parks, 3);
}

TEST(ParkingPlace, IsWokenFromAnotherThread) {
  parking_place place;
  std::atomic<int> posted = 0;
  std::atomic<int> taken = 0;
  constexpr int rounds = 2000;
  std::jthread waker([&] {
    for (int round = 1; round <= rounds; ++round) {
      posted.store(round, std::memory_order_relaxed);
      place.wake();
      while (taken.load(std::memory_order_acquire) != round) std::this_thread::yield();
    }
  });
  for (int round = 1; round <= rounds; ++round) {
    while (posted.load(std::memory_order_relaxed) != round) place.park(for_ever);
    taken.store(round, std::memory_order_release);
  }
}

TEST(ParkingPlace, TellsTheWakerThatEndsAPark) {
  parking_place place;
  std::atomic<bool> found = false;
  // It wakes as soon as the other has parked, not before.
  std::jthread waker([&] {
    while (!place.wake()) std::this_thread::yield();
    found = true;
  });
  while (!found) place.park(monotonic_now() + 100us);
}

TEST(ParkingPlace, OneOfManyWakersMakesTheSystemCall) {
  for (int round = 0; round < 50; ++round) {
    parking_place place;
    std::atomic<int> found = 0;
    {
      std::vector<std::jthread> wakers;
      for (int i = 0; i < 3; ++i) {
        wakers.emplace_back([&] { found += place.wake() ? 1 : 0; });
      }
      place.park(for_ever);
    }
    EXPECT_LE(found, 1);
  }
}

std::atomic<int> handled = 0;

// A handler without SA_RESTART, for as long as the test runs.
class handles_sigusr1 {
 public:
  explicit handles_sigusr1(void (*handler)(int)) {
    struct sigaction action{};
    action.sa_handler = handler;
    EXPECT_EQ(sigaction(SIGUSR1, &action, &before_), 0);
  }
  handles_sigusr1(const handles_sigusr1&) = delete;
  handles_sigusr1& operator=(const handles_sigusr1&) = delete;
  ~handles_sigusr1() {
    std::signal(SIGUSR1, SIG_IGN);  // discards one that is on its way
    sigaction(SIGUSR1, &before_, nullptr);
  }

 private:
  struct sigaction before_{};
};

TEST(ParkingPlace, ReturnsAfterASignal) {
  handled = 0;
  const handles_sigusr1 scope([](int) { ++handled; });
  parking_place place;
  const pthread_t parker = pthread_self();
  // Again and again: a signal that comes before the park does not end it.
  std::jthread sender([parker](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      pthread_kill(parker, SIGUSR1);
      std::this_thread::yield();
    }
  });
  place.park(for_ever);
  EXPECT_GE(handled, 1);
}

parking_place* signalled = nullptr;

TEST(ParkingPlace, IsWokenFromASignalHandler) {
  parking_place place;
  signalled = &place;
  const handles_sigusr1 scope([](int) { signalled->wake(); });
  raise(SIGUSR1);
  place.park(for_ever);
  std::jthread sender([parker = pthread_self()] { pthread_kill(parker, SIGUSR1); });
  place.park(for_ever);
}

// Does not wait, but tells that it was asked to.
struct counting_futex {
  static void wait(const gyre::detail::futex_word&, std::uint32_t, steady_time) { ++waits; }
  static void wake_one(const gyre::detail::futex_word&) { ++wakes; }
  static inline int waits = 0;
  static inline int wakes = 0;
};

TEST(ParkingPlace, ResetForgetsAWakeUp) {
  counting_futex::waits = counting_futex::wakes = 0;
  gyre::detail::basic_parking_place<counting_futex> place;
  place.wake();
  place.park(for_ever);
  EXPECT_EQ(counting_futex::waits, 0) << "it was woken";
  place.wake();
  place.reset();
  place.park(for_ever);
  EXPECT_EQ(counting_futex::waits, 1) << "it was not, in this process";
  EXPECT_EQ(counting_futex::wakes, 0) << "and nobody was parked";
}

}  // namespace
}  // namespace parking_place_test

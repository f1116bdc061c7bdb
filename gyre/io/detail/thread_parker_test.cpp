// SPDX-License-Identifier: Apache-2.0
// Tests of the parker on the system's futex; its model test shows that it loses no wake-up.
#include <gyre/io/detail/thread_parker.hpp>

#include <gyre/base/clock.hpp>
#include <gyre/testing/system_call_faults.hpp>
#include <tests/support/signal_sender.hpp>

#include <gtest/gtest.h>

#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <thread>
#include <vector>

namespace thread_parker_test {
namespace {

using namespace std::chrono_literals;
using gyre::steady_time;
using gyre::detail::monotonic_now;
using gyre::detail::thread_parker;
using gyre::test::sends;
using gyre::test::signal_sender;

constexpr steady_time for_ever = steady_time::max();

TEST(ThreadParker, ParksUntilTheDeadline) {
  thread_parker parker;
  for (const std::chrono::nanoseconds delay : {1ns, 100'000ns, 2'000'000ns}) {
    const steady_time deadline = monotonic_now() + delay;
    int parks = 0;
    for (; monotonic_now() < deadline; ++parks) parker.park(deadline);
    EXPECT_LE(parks, 3) << "it must not return early, unless for no reason";
  }
}

TEST(ThreadParker, MayReturnEarlyWhereTheKernelDoesNotWait) {
  thread_parker parker;
  for (const int error : {EINTR, EAGAIN, ENOMEM}) {
    const gyre::testing::fault failing("syscall", error);
    parker.park(for_ever);
    EXPECT_EQ(failing.hits(), 1);
  }
  EXPECT_FALSE(parker.unpark()) << "nobody is parked";
  parker.park(for_ever);
}

TEST(ThreadParker, DoesNotWaitForADeadlineThatHasPassed) {
  thread_parker parker;
  parker.park(monotonic_now() - 1s);
  parker.park(steady_time{});
  parker.park(steady_time{-1s});
  parker.park(steady_time::min());
  EXPECT_FALSE(parker.unpark()) << "and parks no more";
}

TEST(ThreadParker, AWakeUpBeforeMakesTheNextParkReturnAtOnce) {
  thread_parker parker;
  EXPECT_FALSE(parker.unpark()) << "nobody is parked";
  EXPECT_FALSE(parker.unpark()) << "still nobody";
  parker.park(for_ever);
}

TEST(ThreadParker, WakeUpsBeforeEndOneParkOnly) {
  thread_parker parker;
  parker.unpark();
  parker.unpark();
  parker.park(for_ever);
  const steady_time deadline = monotonic_now() + 1ms;
  int parks = 0;
  for (; monotonic_now() < deadline; ++parks) parker.park(deadline);
  EXPECT_LE(parks, 3);
}

TEST(ThreadParker, IsWokenFromAnotherThread) {
  thread_parker parker;
  std::atomic<int> posted = 0;
  std::atomic<int> taken = 0;
  constexpr int rounds = 2000;
  std::jthread waker([&] {
    for (int round = 1; round <= rounds; ++round) {
      posted.store(round, std::memory_order_relaxed);
      parker.unpark();
      while (taken.load(std::memory_order_acquire) != round) std::this_thread::yield();
    }
  });
  for (int round = 1; round <= rounds; ++round) {
    while (posted.load(std::memory_order_relaxed) != round) parker.park(for_ever);
    taken.store(round, std::memory_order_release);
  }
}

TEST(ThreadParker, TellsTheWakerThatEndsAPark) {
  thread_parker parker;
  std::atomic<bool> found = false;
  // Wakes the owner as soon as the owner has parked, not before.
  std::jthread waker([&] {
    while (!parker.unpark()) std::this_thread::yield();
    found = true;
  });
  while (!found) parker.park(monotonic_now() + 100us);
}

TEST(ThreadParker, OneOfManyWakersMakesTheSystemCall) {
  for (int round = 0; round < 50; ++round) {
    thread_parker parker;
    std::atomic<int> found = 0;
    {
      std::vector<std::jthread> wakers;
      for (int i = 0; i < 3; ++i) {
        wakers.emplace_back([&] { found += parker.unpark() ? 1 : 0; });
      }
      parker.park(for_ever);
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
    std::signal(SIGUSR1, SIG_IGN);  // discards a pending signal
    sigaction(SIGUSR1, &before_, nullptr);
  }

 private:
  struct sigaction before_{};
};

TEST(ThreadParker, ReturnsAfterASignal) {
  handled = 0;
  const handles_sigusr1 scope([](int) { ++handled; });
  thread_parker parker;
  // A signal that comes before the park does not end it.
  const signal_sender sender(pthread_self(), SIGUSR1, sends::repeatedly);
  parker.park(for_ever);
  EXPECT_GE(handled, 1);
}

thread_parker* signalled = nullptr;

TEST(ThreadParker, IsWokenFromASignalHandler) {
  thread_parker parker;
  signalled = &parker;
  const handles_sigusr1 scope([](int) { signalled->unpark(); });
  raise(SIGUSR1);
  parker.park(for_ever);
  const signal_sender sender(pthread_self(), SIGUSR1, sends::once);
  parker.park(for_ever);
}

// Records the call instead of waiting.
struct counting_futex {
  static void wait(const gyre::detail::atomic<std::uint32_t>&, std::uint32_t, steady_time) {
    ++waits;
  }
  static void wake_one(const gyre::detail::atomic<std::uint32_t>&) { ++wakes; }
  static inline int waits = 0;
  static inline int wakes = 0;
};

TEST(ThreadParker, ResetForgetsAWakeUp) {
  counting_futex::waits = counting_futex::wakes = 0;
  gyre::detail::basic_thread_parker<counting_futex> parker;
  parker.unpark();
  parker.park(for_ever);
  EXPECT_EQ(counting_futex::waits, 0) << "it was woken";
  parker.unpark();
  parker.reset();
  parker.park(for_ever);
  EXPECT_EQ(counting_futex::waits, 1) << "it was not, in this process";
  EXPECT_EQ(counting_futex::wakes, 0) << "and nobody was parked";
}

}  // namespace
}  // namespace thread_parker_test

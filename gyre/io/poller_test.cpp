// SPDX-License-Identifier: Apache-2.0
// Unit tests of the pollers; fd_watch_test.cpp and the loop's tests use them within a loop.
#include <gyre/io/epoll_poller.hpp>

#include <gyre/base/error.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/io/uring_poller.hpp>
#include <tests/support/refused_system_calls.hpp>
#include <tests/support/signal_sender.hpp>
#include <tests/support/uring_variants.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

// Writes the coverage profile, in a build that keeps one: _exit() does not.
extern "C" [[gnu::weak]] int __llvm_profile_write_file();

namespace poller_test {
namespace {

using namespace std::chrono_literals;
using gyre::readiness;
using gyre::steady_time;
using gyre::trigger;
using gyre::io::epoll_poller;

constexpr steady_time at_once = steady_time::min();
constexpr steady_time for_ever = steady_time::max();

// An eventfd, and its reported events.
struct descriptor : gyre::readiness_operation {
  explicit descriptor(std::uint32_t value = 0)
      : descriptor(gyre::unique_fd(::eventfd(value, EFD_CLOEXEC | EFD_NONBLOCK))) {}
  void make_ready() const { EXPECT_EQ(::eventfd_write(fd(), 1), 0); }

  std::vector<readiness> reports;
  gyre::move_only_function<void()> then;

 private:
  explicit descriptor(gyre::unique_fd opened)
      : readiness_operation(opened.get(), &report), owned(std::move(opened)) {}
  static void report(readiness_operation& op, readiness ready) {
    auto& self = static_cast<descriptor&>(op);
    self.reports.push_back(ready);
    if (self.then) self.then();
  }
  gyre::unique_fd owned;
};

// The poller under test: on epoll, or on a variant of io_uring.
struct tested_poller {
  std::string name;
  std::optional<gyre::io::uring_features> features;
  bool watching = false;  // a descriptor that never becomes ready

  std::unique_ptr<gyre::poller> make() const {
    if (!features) return std::make_unique<epoll_poller>();
    return std::make_unique<gyre::io::uring_poller>(*features);
  }
  friend void PrintTo(const tested_poller& self, std::ostream* to) { *to << self.name; }
};

std::vector<tested_poller> every_poller() {
  std::vector<tested_poller> all{{"Epoll", {}}};
  if (!gyre::io::probe_uring().usable) return all;
  for (const auto& [name, features] : gyre::test::uring_variants()) {
    all.push_back({"Uring" + name, features});
  }
  return all;
}

// A poller waits in one way while it watches descriptors, in another while it has none.
std::vector<tested_poller> every_poller_watching_or_not() {
  std::vector<tested_poller> all;
  for (tested_poller& each : every_poller()) {
    all.push_back({each.name + "WatchingNothing", each.features});
    all.push_back({each.name + "Watching", each.features, true});
  }
  return all;
}

class Poller : public testing::TestWithParam<tested_poller> {
 protected:
  std::size_t complete() {
    std::size_t completed = 0;
    poller_.complete(completed);
    return completed;
  }
  std::size_t poll() {
    poller_.wait(at_once);
    return complete();
  }
  // Several turns may be needed to complete all.
  template <class Done>
  void poll_until(Done done) {
    for (int turns = 0; turns < 1000 && !done(); ++turns) poll();
    EXPECT_TRUE(done()) << "never came";
  }

 private:
  std::unique_ptr<gyre::poller> owned_ = GetParam().make();

 protected:
  gyre::poller& poller_ = *owned_;
};

INSTANTIATE_TEST_SUITE_P(, Poller, testing::ValuesIn(every_poller()),
                         [](const auto& tested) { return tested.param.name; });

TEST_P(Poller, ReadsTheMonotonicClock) {
  const steady_time before = gyre::detail::monotonic_now();
  const steady_time now = poller_.now();
  EXPECT_LE(before, now);
  EXPECT_LE(now, gyre::detail::monotonic_now());
}

// A poller that returned early without a reason would wait thousands of times.
constexpr int max_waits = 20;

class PollerWait : public Poller {
 protected:
  void SetUp() override {
    if (GetParam().watching) poller_.watch(silent_, readiness::readable, trigger::level);
  }
  void TearDown() override { poller_.unwatch(silent_); }

 private:
  descriptor silent_;
};

INSTANTIATE_TEST_SUITE_P(, PollerWait, testing::ValuesIn(every_poller_watching_or_not()),
                         [](const auto& tested) { return tested.param.name; });

TEST_P(PollerWait, DoesNotWaitForWhatIsPast) {
  poller_.wait(at_once);
  poller_.wait(poller_.now() - 1s);
  poller_.wait(steady_time{});
  poller_.wait(steady_time{-1s});
  poller_.wait(steady_time::min() + 1ns);
  EXPECT_EQ(complete(), 0u);
}

TEST_P(PollerWait, WaitsUntilItsDeadline) {
  for (const std::chrono::nanoseconds delay : {1ns, 100'000ns, 1'000'000ns}) {
    const steady_time deadline = poller_.now() + delay;
    int waits = 0;
    for (; poller_.now() < deadline; ++waits) poller_.wait(deadline);
    EXPECT_LE(waits, max_waits) << "it must not return early, unless for no reason";
  }
}

// A poller may give a deadline that many waits have to a timer of its own.
TEST_P(PollerWait, WaitsUntilADeadlineThatOthersHadToo) {
  const auto wait_in_vain = [this](steady_time deadline) {
    for (int i = 0; i < 10; ++i) {
      poller_.wake();
      poller_.wait(deadline);
      complete();
    }
  };
  const auto wait_until = [this](steady_time deadline) {
    int waits = 0;
    for (; poller_.now() < deadline; ++waits) {
      poller_.wait(deadline);
      EXPECT_EQ(complete(), 0u);
    }
    return waits;
  };
  for (int round = 0; round < 3; ++round) {
    const steady_time deadline = poller_.now() + 2ms;
    wait_in_vain(deadline);
    EXPECT_LE(wait_until(deadline), max_waits) << "it must not return early, unless for no reason";
  }
  // One that is left for an earlier one does not delay that; one that is left for a later one may
  // end a wait, but only one.
  wait_in_vain(poller_.now() + 1h);
  wait_until(poller_.now() + 100us);
  wait_in_vain(poller_.now() + 1ms);
  EXPECT_LE(wait_until(poller_.now() + 5ms), max_waits);
  wait_in_vain(poller_.now() - 1s);
  wait_until(poller_.now() + 100us);
}

TEST_P(PollerWait, IsWokenBeforeAndDuringAWait) {
  poller_.wake();
  poller_.wait(for_ever);
  for (int i = 0; i < 200; ++i) {
    std::jthread waker([&] { poller_.wake(); });
    poller_.wait(for_ever);
  }
}

TEST_P(PollerWait, IsWokenByManyThreads) {
  for (int i = 0; i < 50; ++i) {
    std::vector<std::jthread> wakers;
    for (int n = 0; n < 3; ++n) wakers.emplace_back([&] { poller_.wake(); });
    poller_.wait(for_ever);
    wakers.clear();
    poller_.wait(poller_.now());  // takes the remaining events
  }
}

TEST_P(PollerWait, ReturnsOnceForManyWakeUps) {
  for (int i = 0; i < 100; ++i) poller_.wake();
  poller_.wait(for_ever);
  EXPECT_EQ(complete(), 0u) << "a wake-up is nobody's operation";
  const steady_time deadline = poller_.now() + 1ms;
  int waits = 0;
  for (; poller_.now() < deadline; ++waits) poller_.wait(deadline);
  EXPECT_LE(waits, max_waits);
}

TEST_P(PollerWait, AWakeUpIsNotLostWhenAWatchBeginsOrEnds) {
  descriptor other;
  poller_.wake();
  poller_.watch(other, readiness::readable, trigger::level);
  poller_.wait(for_ever);
  poller_.wake();
  poller_.unwatch(other);
  poller_.wait(for_ever);
}

TEST_P(PollerWait, ReturnsWhenASignalHandlerRan) {
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = [](int) {};
  sigaction(SIGUSR1, &action, &before);
  {
    const gyre::test::signal_sender sender(pthread_self(), SIGUSR1, gyre::test::sends::repeatedly);
    EXPECT_EQ(poller_.wait(for_ever), 0u);
  }
  sigaction(SIGUSR1, &before, nullptr);
}

TEST_P(PollerWait, IsWokenFromASignalHandler) {
  static gyre::poller* woken;
  woken = &poller_;
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = [](int) { woken->wake(); };
  sigaction(SIGUSR1, &action, &before);
  std::raise(SIGUSR1);
  poller_.wait(for_ever);
  sigaction(SIGUSR1, &before, nullptr);
}

TEST_P(Poller, ReportsAndCountsReadiness) {
  descriptor ready(1);
  descriptor silent;
  poller_.watch(ready, readiness::readable | readiness::writable, trigger::level);
  poller_.watch(silent, readiness::readable, trigger::level);
  EXPECT_EQ(poller_.watched(), 2u);
  EXPECT_GT(poller_.wait(for_ever), 0u);
  EXPECT_EQ(complete(), 1u);
  EXPECT_EQ(complete(), 0u);
  EXPECT_THAT(ready.reports, testing::ElementsAre(readiness::readable | readiness::writable));
  EXPECT_TRUE(silent.reports.empty());
  poller_.unwatch(ready);
  poller_.unwatch(ready);
  EXPECT_EQ(poller_.watched(), 1u);
  EXPECT_EQ(poll(), 0u);
  poller_.unwatch(silent);
}

TEST_P(Poller, RemembersWhatItWatchesFor) {
  descriptor op;
  poller_.watch(op, readiness::readable, trigger::edge);
  EXPECT_EQ(op.interest(), readiness::readable);
  EXPECT_EQ(op.mode(), trigger::edge);
  poller_.rewatch(op, readiness::writable, trigger::level);
  EXPECT_EQ(op.interest(), readiness::writable);
  EXPECT_EQ(op.mode(), trigger::level);
  poller_.unwatch(op);
  EXPECT_THROW(poller_.rewatch(op, readiness::readable, trigger::level), std::system_error);
  EXPECT_EQ(op.interest(), readiness::writable) << "a change that failed is none";
}

TEST_P(Poller, ForgetsReadinessOfWhatItNoLongerWatches) {
  std::array<descriptor, 2> ops{descriptor(1), descriptor(1)};
  for (std::size_t i = 0; i < 2; ++i) {
    poller_.watch(ops[i], readiness::readable, trigger::level);
    ops[i].then = [&, i] { poller_.unwatch(ops[1 - i]); };
  }
  EXPECT_GT(poller_.wait(at_once), 0u);
  EXPECT_EQ(complete(), 1u);
  EXPECT_EQ(ops[0].reports.size() + ops[1].reports.size(), 1u);
  for (descriptor& each : ops) poller_.unwatch(each);
}

TEST_P(Poller, CompletesTheRestAfterAnException) {
  std::array<descriptor, 3> ops{descriptor(1), descriptor(1), descriptor(1)};
  for (descriptor& each : ops) {
    each.then = [] { throw std::runtime_error("operation"); };
    poller_.watch(each, readiness::readable, trigger::edge);
  }
  EXPECT_GT(poller_.wait(for_ever), 0u);
  std::size_t completed = 0;
  for (std::size_t i = 1; i <= 3; ++i) {
    EXPECT_GT(poller_.wait(at_once), 0u) << "what is left";
    EXPECT_THROW(poller_.complete(completed), std::runtime_error);
    EXPECT_EQ(completed, i);
  }
  poller_.complete(completed);
  EXPECT_EQ(completed, 3u);
  for (descriptor& each : ops) {
    EXPECT_EQ(each.reports.size(), 1u);
    poller_.unwatch(each);
  }
}

TEST_P(Poller, WatchesTheSameAfterFork) {
  descriptor level(1);
  descriptor edge(1);
  poller_.watch(level, readiness::readable, trigger::level);
  poller_.watch(edge, readiness::readable, trigger::edge);
  EXPECT_GT(poller_.wait(at_once), 0u);
  poller_.after_fork();
  EXPECT_EQ(complete(), 0u) << "what the parent's wait found is the parent's";
  EXPECT_EQ(poll(), 2u);
  EXPECT_EQ(poll(), 1u);
  poller_.wake();
  poller_.wait(for_ever);
  EXPECT_EQ(poller_.watched(), 2u);
  poller_.unwatch(level);
  poller_.unwatch(edge);
}

TEST_P(Poller, ReportsMoreThanItAsksForAtATime) {
  constexpr std::size_t many = 600;
  std::vector<std::unique_ptr<descriptor>> ops;
  for (std::size_t i = 0; i < many; ++i) {
    ops.push_back(std::make_unique<descriptor>(1));
    poller_.watch(*ops.back(), readiness::readable, i % 2 == 0 ? trigger::edge : trigger::level);
  }
  const auto all_reported = [&] {
    return std::ranges::none_of(ops, [](const auto& each) { return each->reports.empty(); });
  };
  poll_until(all_reported);
  for (int turns = 0; turns < 5; ++turns) poll();
  for (std::size_t i = 0; i < many; ++i) {
    if (i % 2 == 0) {
      EXPECT_EQ(ops[i]->reports.size(), 1u);
    }
    ops[i]->reports.clear();
  }
  for (std::size_t i = 0; i < many; i += 2) ops[i]->make_ready();
  poll_until(all_reported);
  for (const auto& each : ops) poller_.unwatch(*each);
}

// The wake-ups are more than a ring has room for.
TEST_P(PollerWait, ManyWakeUpsHideNothing) {
  for (int i = 0; i < 6000; ++i) poller_.wake();
  descriptor ready(1);
  poller_.watch(ready, readiness::readable, trigger::edge);
  poll_until([&] { return !ready.reports.empty(); });
  const steady_time deadline = poller_.now() + 1ms;
  while (poller_.now() < deadline) {
    poller_.wait(deadline);
    complete();
  }
  EXPECT_EQ(ready.reports.size(), 1u);
  poller_.wake();
  poller_.wait(for_ever);
  poller_.unwatch(ready);
}

TEST_P(PollerWait, AWakeUpIsNotLostWhenTheThreadLeaves) {
  poller_.wait(at_once);
  poller_.wake();
  poller_.leave();
  poller_.wait(for_ever);
  poller_.wait(at_once);
  complete();
  poller_.wake();
  std::jthread other([&] { poller_.wait(for_ever); });
}

TEST_P(PollerWait, IsWokenWhicheverThreadWaits) {
  std::atomic<bool> stopped = false;
  std::atomic<int> waits = 0;
  std::thread waker([&] {
    while (!stopped) {
      const int seen = waits;
      poller_.wake();
      // Wakes once per wait, so that threads still have to be woken.
      while (seen == waits && !stopped) std::this_thread::yield();
    }
  });
  for (int i = 0; i < 30; ++i) {
    std::jthread waiting([&] {
      for (int n = 0; n < 3; ++n) {
        poller_.wait(for_ever);
        complete();
        ++waits;
      }
      if (i % 2 == 0) poller_.leave();
    });
  }
  stopped = true;
  waker.join();
}

TEST_P(Poller, ReportsToWhicheverThreadWaits) {
  std::array<descriptor, 2> ops;
  poller_.watch(ops[0], readiness::readable, trigger::edge);
  poller_.watch(ops[1], readiness::readable, trigger::edge);
  for (std::size_t i = 1; i <= 20; ++i) {
    ops[i % 2].make_ready();
    std::jthread waiting([&] {
      while (ops[i % 2].reports.empty()) {
        poller_.wait(for_ever);
        complete();
      }
      if (i % 3 == 0) poller_.leave();
    });
    waiting.join();
    EXPECT_EQ(ops[i % 2].reports.size(), 1u);
    ops[i % 2].reports.clear();
  }
  for (descriptor& each : ops) poller_.unwatch(each);
}

TEST_P(Poller, MayDieWhileItWatches) {
  descriptor op;
  {
    const std::unique_ptr<gyre::poller> mortal = GetParam().make();
    mortal->watch(op, readiness::readable, trigger::level);
  }
  EXPECT_FALSE(op.is_linked());
  poller_.watch(op, readiness::readable, trigger::level);
  poller_.unwatch(op);
}

TEST_P(Poller, SaysWhenThereAreNoDescriptorsLeft) {
  // UndefinedBehaviorSanitizer needs a descriptor where it meets a type for the first time.
  EXPECT_THROW(gyre::detail::throw_system_error(EMFILE, "first"), std::system_error);
  static_cast<void>(GetParam().make());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  // Leaves no descriptor, and then one of the two that a poller needs.
  for (const rlim_t room : {0u, 1u}) {
    const gyre::unique_fd next_free(::eventfd(0, EFD_CLOEXEC));
    rlimit none = before;
    none.rlim_cur = static_cast<rlim_t>(next_free.get()) + 1 + room;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    std::exception_ptr refusal;
    try {
      static_cast<void>(GetParam().make());
    } catch (...) {
      refusal = std::current_exception();
    }
    setrlimit(RLIMIT_NOFILE, &before);  // a sanitizer needs descriptors to look at the exception
    ASSERT_NE(refusal, nullptr) << "made with " << room << " descriptors";
    try {
      std::rethrow_exception(refusal);
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code().value(), EMFILE);
    }
  }
}

TEST(EpollPoller, RoundsUpToMillisecondsOnOldKernels) {
  constexpr int no_filters_here = 77;
  const pid_t child = ::fork();
  if (child == 0) {
    int status = 0;
    epoll_poller poller_;
    descriptor silent;
    poller_.watch(silent, readiness::readable, trigger::level);
    if (gyre::test::refuse({SYS_epoll_pwait2, ENOSYS})) {
      for (int i = 0; i < 2 && status == 0; ++i) {
        const steady_time deadline = poller_.now() + 300us;
        poller_.wait(deadline);
        status = poller_.now() >= deadline ? 0 : 1;
      }
      descriptor ready(1);
      poller_.watch(ready, readiness::readable, trigger::level);
      if (poller_.wait(poller_.now() + 1000h) != 1) status = 2;
      poller_.unwatch(ready);
      poller_.unwatch(silent);
    } else {
      status = no_filters_here;
    }
    if (__llvm_profile_write_file != nullptr) __llvm_profile_write_file();
    ::_exit(status);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == no_filters_here) GTEST_SKIP() << "no seccomp filters here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace poller_test

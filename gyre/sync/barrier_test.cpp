// SPDX-License-Identifier: Apache-2.0
// Tests of barrier beyond what wait_test.cpp tests of all primitives.
#include <gyre/sync/barrier.hpp>

#include <gyre/sync/sync_test_support.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <tests/support/thread_executor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <string>
#include <utility>
#include <vector>

namespace barrier_test {
namespace {

using gyre::barrier;
using gyre::inplace_stop_source;
using gyre::task;
using gyre::test::started;
using gyre::test::thread_executor;
using gyre::test::unless_sanitized;
using gyre::testing::manual_executor;

constinit barrier<> static_barrier(1);  // needs no start-up code

template <class Barrier>
task<> takes_part(Barrier& in, int phases, std::string& log, char name) {
  for (int i = 0; i < phases; ++i) {
    log += name;
    co_await in.arrive_and_wait();
  }
}

TEST(Barrier, ABarrierOfOneNeverWaits) {
  std::string log;
  gyre::sync_wait(takes_part(static_barrier, 3, log, 'a'));
  EXPECT_EQ(log, "aaa");
}

TEST(Barrier, CompletesEachPhaseBeforeAnybodyGoesOn) {
  manual_executor here;
  std::string log;
  barrier phases(3, [&]() noexcept { log += '|'; });
  for (const char name : {'a', 'b', 'c'}) gyre::spawn(here, takes_part(phases, 3, log, name));
  here.run_all();
  EXPECT_EQ(log, "abc|cab|bca|") << "the last to arrive goes on at once";
}

TEST(Barrier, ThreadThatDropsOutIsNotExpectedAgain) {
  manual_executor here;
  std::string log;
  barrier phases(3, [&]() noexcept { log += '|'; });
  started first(here, takes_part(phases, 2, log, 'a'));
  started second(here, takes_part(phases, 2, log, 'b'));
  phases.arrive_and_drop();
  here.run_all();
  EXPECT_EQ(log, "ab|ab|");
  EXPECT_TRUE(first.done() && second.done());
}

TEST(Barrier, ArrivalCanBeWaitedForLater) {
  manual_executor here;
  std::string log;
  barrier phases(2, [&]() noexcept { log += '|'; });
  auto token = phases.arrive();
  auto waits = [&]() -> task<> {
    co_await phases.wait(token);
    log += 'a';
    co_await phases.wait(token);
    log += 'b';
  };
  started waiting(here, waits());
  EXPECT_EQ(log, "");
  static_cast<void>(phases.arrive());
  here.run_all();
  EXPECT_EQ(log, "|ab") << "a phase that is over is not waited for";
}

TEST(Barrier, CancelledArrivalIsTakenBack) {
  manual_executor here;
  std::string log;
  inplace_stop_source source;
  barrier phases(2, [&]() noexcept { log += '|'; });
  auto gives_up = [&]() -> task<> {
    try {
      co_await phases.arrive_and_wait();
    } catch (const gyre::operation_cancelled&) {
      log += 'x';
      phases.arrive_and_drop();
    }
  };
  started quitter(here, gives_up(), source.get_token());
  source.request_stop();
  here.run_all();
  EXPECT_EQ(log, "x");
  started stays(here, takes_part(phases, 2, log, 'a'));
  EXPECT_EQ(log, "xa|a|");
}

TEST(Barrier, CancelledWaitForATokenLeavesTheArrival) {
  manual_executor here;
  std::string log;
  inplace_stop_source source;
  barrier phases(2, [&]() noexcept { log += '|'; });
  auto gives_up = [&]() -> task<> {
    auto token = phases.arrive();
    co_await phases.wait(token);
    ADD_FAILURE() << "was not cancelled";
  };
  started quitter(here, gives_up(), source.get_token());
  source.request_stop();
  here.run_all();
  static_cast<void>(phases.arrive());
  EXPECT_EQ(log, "|");
}

TEST(Barrier, KeepsSeveralThreadsInStep) {
  const int rounds = unless_sanitized(20'000);
  constexpr int participants = 4;
  int at[participants] = {};
  int completed = 0;
  bool in_step = true;
  barrier phases(participants, [&]() noexcept {
    ++completed;
    for (const int each : at) in_step = in_step && each == completed;
  });
  auto steps = [&](int& mine) -> task<> {
    for (int i = 0; i < rounds; ++i) {
      ++mine;
      co_await phases.arrive_and_wait();
    }
  };
  thread_executor threads[2];
  std::vector<std::future<void>> ends;
  for (int i = 0; i < participants; ++i) {
    ends.push_back(gyre::spawn_future(threads[i % 2], steps(at[i])));
  }
  for (auto& end : ends) end.get();
  EXPECT_EQ(completed, rounds);
  EXPECT_TRUE(in_step);
}

// A completion function that begins a wait for the phase that it completes.
struct lets_wait {
  std::function<void()>* wait;
  void operator()() const noexcept {
    if (*wait) (*wait)();
  }
};

TEST(Barrier, AWaitThatComesWhileThePhaseCompletesIsNotForgotten) {
  gyre::testing::manual_executor executor;
  std::function<void()> wait;
  gyre::barrier<lets_wait> barrier(2, lets_wait{&wait});
  bool through = false;
  auto token = barrier.arrive();
  wait = [&] {
    gyre::spawn(executor, [](auto& of, auto proof, bool& reached) -> gyre::task<> {
      co_await of.wait(proof);
      reached = true;
    }(barrier, token, through));
    executor.run_all();
  };
  static_cast<void>(barrier.arrive());
  executor.run_all();
  EXPECT_TRUE(through);
}

}  // namespace
}  // namespace barrier_test

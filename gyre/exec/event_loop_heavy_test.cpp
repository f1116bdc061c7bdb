// SPDX-License-Identifier: Apache-2.0
// Tests of heavy operations: a loop runs few of them in a turn, and everything else between two.
#include <gyre/exec/loop.hpp>

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/detail/heavy_turn.hpp>
#include <gyre/exec/fd_watch.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/task/stop_when.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <tests/support/coroutine_sockets.hpp>

#include <gtest/gtest.h>

#include <sys/eventfd.h>

#include <chrono>
#include <list>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace event_loop_heavy_test {
namespace {

using namespace std::chrono_literals;

// Calls `function` when it runs.
struct heavy final : gyre::heavy_operation {
  explicit heavy(gyre::move_only_function<void()> runs)
      : heavy_operation([](heavy_operation& op) { static_cast<heavy&>(op).function(); }),
        function(std::move(runs)) {}
  gyre::move_only_function<void()> function;
};

constexpr auto unlimited = std::chrono::hours{1};

TEST(EventLoopHeavy, ATurnRunsOneAtLeastAndEverythingElseBetweenTwo) {
  gyre::loop loop({.heavy_time = 0ns});
  std::string order;
  const gyre::unique_fd ready{eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)};
  gyre::fd_watch watch(loop, ready.get(), [&](gyre::readiness) { order += 'i'; });
  watch.start(gyre::readiness::readable);
  heavy first([&] { order += 'a'; });
  heavy second([&] { order += 'b'; });
  for (heavy* const each : {&first, &second}) loop.defer_heavy(*each);
  loop.poll();
  loop.post([&] { order += 'p'; });
  gyre::timer timer(loop, [&] { order += 't'; });
  timer.start_at(gyre::steady_time::min());
  loop.poll();
  EXPECT_EQ(order, "iapibt");
  loop.poll();
  EXPECT_EQ(order, "iapibti");
}

TEST(EventLoopHeavy, ATurnRunsSixteenAtMost) {
  gyre::loop loop({.heavy_time = unlimited});
  int ran = 0;
  std::list<heavy> all;
  for (int i = 0; i < 40; ++i) loop.defer_heavy(all.emplace_back([&] { ++ran; }));
  for (const int expected : {16, 32, 40}) {
    loop.run_once();  // does not sleep
    EXPECT_EQ(ran, expected);
  }
  EXPECT_FALSE(loop.poll());
}

TEST(EventLoopHeavy, OneThatDefersItselfGetsInLine) {
  gyre::loop loop({.heavy_time = unlimited});
  std::string order;
  heavy* again = nullptr;
  heavy first([&] {
    order += 'a';
    if (order.size() < 3) loop.defer_heavy(*again);
  });
  again = &first;
  heavy second([&] { order += 'b'; });
  for (heavy* const each : {&first, &second}) loop.defer_heavy(*each);
  loop.run_once();
  EXPECT_EQ(order, "aba");
}

TEST(EventLoopHeavy, OneThatIsUnlinkedOrDestroyedDoesNotRun) {
  gyre::loop loop;
  int ran = 0;
  heavy unlinked([&] { ++ran; });
  loop.defer_heavy(unlinked);
  {
    heavy destroyed([&] { ++ran; });
    loop.defer_heavy(destroyed);
  }
  unlinked.unlink();
  EXPECT_FALSE(loop.poll());
  EXPECT_EQ(ran, 0);
}

TEST(EventLoopHeavy, AnExceptionLeavesTheOthersToTheNextTurn) {
  int exceptions = 0;
  gyre::loop loop(
      {.heavy_time = unlimited, .on_exception = [&](const std::exception_ptr&) { ++exceptions; }});
  int ran = 0;
  heavy first([] { throw std::runtime_error("heavy"); });
  heavy second([&] { ++ran; });
  for (heavy* const each : {&first, &second}) loop.defer_heavy(*each);
  loop.poll();
  EXPECT_EQ(exceptions, 1);
  EXPECT_EQ(ran, 0);
  loop.poll();
  EXPECT_EQ(ran, 1);
}

gyre::task<> take_turn(gyre::loop& loop, std::string& order, char name) {
  co_await gyre::detail::heavy_turn(loop);
  order += name;
}

TEST(EventLoopHeavy, CoroutinesTakeTurns) {
  gyre::loop loop({.heavy_time = 0ns});
  std::string order;
  const auto all = [&]() -> gyre::task<> {
    co_await gyre::when_all(take_turn(loop, order, 'a'), take_turn(loop, order, 'b'));
  };
  gyre::sync_wait(loop, all());
  EXPECT_EQ(order, "ab");
}

TEST(EventLoopHeavy, AStopEndsTheWaitForATurn) {
  gyre::loop loop({.heavy_time = 0ns});
  std::string order;
  gyre::inplace_stop_source stop;
  // The first operation asks the coroutine after it to stop.
  heavy stopping([&] { stop.request_stop(); });
  const auto waits = [&]() -> gyre::task<> {
    loop.defer_heavy(stopping);
    auto work = gyre::stop_when(take_turn(loop, order, 'a'), stop.get_token());
    co_await std::move(work);
  };
  const auto error = [&] { return gyre::test::error_of(loop, waits()); };
  EXPECT_EQ(error(), std::errc::operation_canceled);
  EXPECT_EQ(order, "");
  EXPECT_EQ(error(), std::errc::operation_canceled) << "stopped before";
  EXPECT_EQ(order, "");
}

}  // namespace
}  // namespace event_loop_heavy_test

// SPDX-License-Identifier: Apache-2.0
// Tests of strands: order, exclusion, fairness, time, and the end of a strand.
#include <gyre/exec/strand.hpp>

#include <gyre/base/operation.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/fork.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <gyre/testing/virtual_time_loop.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace strand_test {
namespace {

using namespace std::chrono_literals;
using gyre::strand;
using gyre::testing::manual_executor;
using testing::ElementsAre;

struct call : gyre::operation {
  explicit call(std::function<void()> work)
      : operation([](operation& self) { static_cast<call&>(self).to_call(); }),
        to_call(std::move(work)) {}
  std::function<void()> to_call;
};

TEST(Strand, RunsOperationsInTheOrderOfTheirPosts) {
  manual_executor below;
  strand serial(below);
  std::vector<int> log;
  call second([&] { log.push_back(2); });
  call third([&] { log.push_back(3); });
  call first([&] {
    serial.post(third);
    log.push_back(1);
  });
  serial.post(first);
  serial.post(second);
  EXPECT_EQ(below.pending(), 1) << "one post of the strand serves all";
  below.run_all();
  EXPECT_THAT(log, ElementsAre(1, 2, 3));
  EXPECT_EQ(below.posts(), 1);
}

TEST(Strand, RunsAnOperationAgainThatPostsItself) {
  manual_executor below;
  strand serial(below);
  int left = 1000;
  call again([&] {
    if (--left > 0) serial.post(again);
  });
  serial.post(again);
  below.run_all();
  EXPECT_EQ(left, 0);
}

TEST(Strand, GivesOthersTheirTurn) {
  manual_executor below;
  strand serial(below);
  std::size_t ran = 0;
  bool ends = false;
  call again([&] {
    ++ran;
    if (!ends) serial.post(again);
  });
  serial.post(again);
  std::size_t seen = 0;
  call other([&] { seen = ran; });
  below.post(other);
  EXPECT_TRUE(below.run_one());
  EXPECT_TRUE(below.run_one());
  EXPECT_EQ(seen, strand::most_per_turn);
  EXPECT_EQ(below.pending(), 1) << "the strand waits for its next turn";
  ends = true;
  below.run_all();
}

TEST(Strand, PostedWhileItDrainsNeedsNoPostBelow) {
  manual_executor below;
  strand serial(below);
  bool ran = false;
  call late([&] { ran = true; });
  call first([&] { std::jthread([&] { serial.post(late); }).join(); });
  serial.post(first);
  EXPECT_TRUE(below.run_one());
  EXPECT_TRUE(ran);
  EXPECT_EQ(below.posts(), 1);
}

TEST(Strand, PostedAfterItDrainedIsPostedBelowAgain) {
  manual_executor below;
  strand serial(below);
  int runs = 0;
  call counts([&] { ++runs; });
  for (int i = 1; i <= 3; ++i) {
    serial.post(counts);
    below.run_all();
    EXPECT_EQ(runs, i);
    EXPECT_EQ(below.posts(), static_cast<std::size_t>(i));
  }
}

TEST(Strand, KnowsWhetherItRunsHere) {
  manual_executor below;
  strand serial(below);
  strand other(below);
  EXPECT_FALSE(serial.running_here());
  call looks([&] {
    EXPECT_TRUE(serial.running_here());
    EXPECT_FALSE(other.running_here());
    EXPECT_TRUE(below.running_here());
    std::jthread([&] { EXPECT_FALSE(serial.running_here()); }).join();
  });
  serial.post(looks);
  below.run_all();
  EXPECT_FALSE(serial.running_here());
  call outside([&] { EXPECT_FALSE(serial.running_here()); });
  below.post(outside);
  below.run_all();
  EXPECT_EQ(&serial.target(), &below);
  EXPECT_EQ(serial.fork_queue_here(), nullptr) << "a thief would run beside the strand";
}

TEST(Strand, GoesOnAfterAnExceptionOfAnOperation) {
  int exceptions = 0;
  gyre::loop loop({.on_exception = [&](std::exception_ptr) { ++exceptions; }});
  strand serial(loop);
  bool ran = false;
  call fails([] { throw std::runtime_error("operation"); });
  call after([&] { ran = true; });
  serial.post(fails);
  serial.post(after);
  while (loop.poll()) continue;
  EXPECT_EQ(exceptions, 1);
  EXPECT_TRUE(ran);
  EXPECT_FALSE(serial.running_here());
}

TEST(Strand, OnTheInlineExecutorRunsWithinThePost) {
  strand serial(gyre::inline_executor());
  std::vector<int> log;
  call second([&] { log.push_back(2); });
  call first([&] {
    serial.post(second);
    log.push_back(1);
  });
  serial.post(first);
  EXPECT_THAT(log, ElementsAre(1, 2));
}

TEST(Strand, OnAStrandIsSerialAsWell) {
  manual_executor below;
  strand outer(below);
  strand inner(static_cast<gyre::executor&>(outer));
  std::vector<int> log;
  call one([&] {
    log.push_back(1);
    EXPECT_TRUE(inner.running_here() && outer.running_here());
  });
  call two([&] { log.push_back(2); });
  inner.post(one);
  outer.post(two);
  below.run_all();
  EXPECT_THAT(log, ElementsAre(1, 2));
}

// ---- coroutines

gyre::task<int> count_up(int& counter, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    const int before = counter;  // an update that another thread's would undo
    co_await gyre::yield();
    counter += 1;
    static_cast<void>(before);
  }
  co_return counter;
}

TEST(StrandCoroutines, ShareDataWithoutALock) {
  gyre::thread_pool pool({.workers = 4});
  strand serial(pool);
  constexpr int coroutines = 8;
  constexpr int rounds = 2000;
  int counter = 0;  // a data race, if two of them ran at once
  std::vector<std::future<int>> ends;
  ends.reserve(coroutines);
  for (int i = 0; i < coroutines; ++i) {
    ends.push_back(gyre::spawn_future(serial, count_up(counter, rounds)));
  }
  for (auto& each : ends) each.get();
  EXPECT_EQ(counter, coroutines * rounds);
}

gyre::task<bool> hops(strand& to, gyre::executor& back) {
  co_await gyre::resume_on(to);
  const bool there = to.running_here();
  co_await gyre::schedule(to);
  const bool still_there = to.running_here();
  co_await gyre::resume_on(back);
  co_return there&& still_there && !to.running_here();
}

TEST(StrandCoroutines, ComeByResumeOnAndGoAgain) {
  gyre::thread_pool pool({.workers = 2});
  strand serial(pool);
  EXPECT_TRUE(gyre::sync_wait(gyre::on(pool, hops(serial, pool))));
}

gyre::task<bool> sleeps_twice(strand& on) {
  co_await gyre::sleep_for(1h);
  const bool first = on.running_here();
  co_await gyre::sleep_for(0s);
  co_return first&& on.running_here();
}

TEST(StrandCoroutines, SleepByTheTimersBelowAndContinueOnTheStrand) {
  manual_executor below;
  strand serial(below);
  EXPECT_EQ(serial.timers(), below.timers());
  auto end = gyre::spawn_future(serial, sleeps_twice(serial));
  below.advance(1h);
  below.advance(1s);
  EXPECT_TRUE(end.get());
}

TEST(StrandCoroutines, ContinueAfterAnOperationThatRunsWhenTheirTimeComes) {
  gyre::thread_pool pool({.workers = 2});
  strand serial(pool);
  std::promise<void> blocked;
  std::promise<void> go_on;
  call blocks([&] {
    blocked.set_value();
    go_on.get_future().wait();
  });
  auto end = gyre::spawn_future(serial, [](strand& on, call& first) -> gyre::task<bool> {
    on.post(first);
    co_await gyre::sleep_for(1ms);
    co_return on.running_here();
  }(serial, blocks));
  blocked.get_future().wait();
  EXPECT_NE(end.wait_for(5ms), std::future_status::ready);
  go_on.set_value();
  EXPECT_TRUE(end.get());
}

gyre::task<> waits_for_ever() {
  gyre::manual_reset_event never;
  co_await never.wait();
}

gyre::task<bool> times_out(strand& on) {
  bool expired = false;
  try {
    co_await gyre::with_timeout(waits_for_ever(), 1h);
  } catch (const std::system_error& error) {
    expired = error.code() == std::errc::timed_out;
  }
  co_return expired&& on.running_here();
}

TEST(StrandCoroutines, MeetTimeLimits) {
  manual_executor below;
  strand serial(below);
  auto end = gyre::spawn_future(serial, times_out(serial));
  below.advance(1h);
  EXPECT_TRUE(end.get());
}

gyre::task<int> races_time_limits(strand& on, int rounds) {
  int elsewhere = 0;
  for (int i = 0; i < rounds; ++i) {
    try {
      co_await gyre::with_timeout(gyre::sleep_for(std::chrono::microseconds(i % 7)), 3us);
    } catch (const std::system_error&) {  // the limit was first
    }
    if (!on.running_here()) ++elsewhere;
  }
  co_return elsewhere;
}

TEST(StrandCoroutines, StayOnTheStrandWhenLimitsExpireWhileTheWorkEnds) {
  gyre::thread_pool pool({.workers = 3});
  strand serial(pool);
  std::vector<std::future<int>> ends;
  for (int i = 0; i < 4; ++i) {
    ends.push_back(gyre::spawn_future(serial, races_time_limits(serial, 300)));
  }
  for (auto& each : ends) EXPECT_EQ(each.get(), 0);
}

TEST(StrandCoroutines, AreStoppedWhileTheySleep) {
  manual_executor below;
  strand serial(below);
  gyre::inplace_stop_source stop;
  auto end = gyre::spawn_future(serial, sleeps_twice(serial), stop.get_token());
  below.run_all();
  EXPECT_EQ(below.timers_pending(), 1);
  stop.request_stop();
  below.run_all();
  EXPECT_EQ(below.timers_pending(), 0);
  EXPECT_THROW(end.get(), std::system_error);
}

gyre::task<int> returns(int value) { co_return value; }

gyre::task<int> sums(strand& on, int& counter) {
  auto [one, two] = co_await gyre::when_all(count_up(counter, 100), count_up(counter, 100));
  EXPECT_TRUE(on.running_here());
  auto forked = co_await gyre::fork(returns(3));
  const int three = co_await std::move(forked);
  EXPECT_TRUE(on.running_here());
  co_return one + two > 0 ? three : 0;
}

TEST(StrandCoroutines, HaveChildrenOnTheStrandOnly) {
  gyre::thread_pool pool({.workers = 3});
  strand serial(pool);
  int counter = 0;
  EXPECT_EQ(gyre::sync_wait(gyre::on(serial, sums(serial, counter))), 3);
  EXPECT_EQ(counter, 200);
}

TEST(StrandCoroutines, RunOnALoopInVirtualTime) {
  gyre::testing::virtual_time_loop virtual_time;
  strand serial(virtual_time.loop);
  EXPECT_TRUE(gyre::sync_wait(virtual_time.loop, gyre::on(serial, sleeps_twice(serial))));
}

// ---- the end of a strand

TEST(StrandEnd, MayFollowTheLastResultAtOnce) {
  gyre::thread_pool pool({.workers = 2});
  for (int i = 0; i < 1000; ++i) {
    strand serial(pool);
    EXPECT_EQ(gyre::sync_wait(gyre::on(serial, returns(i))), i);
  }
}

TEST(StrandEnd, MayBeInAnOperationOfItsOwn) {
  manual_executor below;
  std::optional<strand> serial(std::in_place, below);
  call ends([&] { serial.reset(); });
  serial->post(ends);
  below.run_all();
  EXPECT_FALSE(serial.has_value());
  EXPECT_EQ(below.pending(), 0);
}

gyre::task<> holds(std::shared_ptr<int>) { co_return; }

TEST(StrandEnd, DestroysCoroutinesThatHaveNotStarted) {
  auto held = std::make_shared<int>();
  manual_executor below;
  {
    strand serial(below);
    gyre::spawn(serial, holds(held));
    gyre::spawn(serial, holds(held));
    EXPECT_EQ(held.use_count(), 3);
  }
  EXPECT_EQ(held.use_count(), 1);
  below.run_all();  // the strand's turn, which finds nothing
}

TEST(StrandEnd, DestroysCoroutinesBehindTheOperationThatEndsIt) {
  auto held = std::make_shared<int>();
  manual_executor below;
  std::optional<strand> serial(std::in_place, below);
  call ends([&] { serial.reset(); });
  serial->post(ends);
  gyre::spawn(*serial, holds(held));
  below.run_all();
  EXPECT_EQ(held.use_count(), 1);
}

// Spawns when it is destroyed.
struct spawns_at_end {
  strand* serial;
  std::shared_ptr<int> held;
  spawns_at_end(strand& on, std::shared_ptr<int> shared) : serial(&on), held(std::move(shared)) {}
  spawns_at_end(spawns_at_end&& other) noexcept
      : serial(std::exchange(other.serial, nullptr)), held(std::move(other.held)) {}
  spawns_at_end& operator=(spawns_at_end&&) = delete;
  ~spawns_at_end() {
    if (serial != nullptr) gyre::spawn(*serial, holds(held));
  }
};
gyre::task<> keeps(spawns_at_end) { co_return; }

TEST(StrandEnd, DestroysCoroutinesThatItsDestructorMakesStart) {
  auto held = std::make_shared<int>();
  manual_executor below;
  {
    strand serial(below);
    gyre::spawn(serial, keeps(spawns_at_end(serial, held)));
  }
  EXPECT_EQ(held.use_count(), 1);
  below.run_all();
}

TEST(StrandEnd, BeforeThatOfItsLoopLeaksNothing) {
  auto held = std::make_shared<int>();
  {
    gyre::loop loop;
    strand serial(loop);
    gyre::spawn(serial, holds(held));
  }
  EXPECT_EQ(held.use_count(), 1);
}

TEST(StrandEnd, RunsACoroutineThatWasSpawnedInTime) {
  auto held = std::make_shared<int>();
  manual_executor below;
  strand serial(below);
  gyre::spawn(serial, holds(held));
  below.run_all();
  EXPECT_EQ(held.use_count(), 1);
}

TEST(StrandEnd, WaitsForAnOperationOnAnotherThread) {
  gyre::thread_pool pool({.workers = 1});
  std::promise<void> runs;
  std::atomic<bool> over{false};
  call slow([&] {
    runs.set_value();
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    over = true;
  });
  {
    strand serial(pool);
    serial.post(slow);
    runs.get_future().wait();
  }
  EXPECT_TRUE(over);
}

// ---- several threads

TEST(StrandStress, RunsEveryOperationOnceAndInTheOrderOfEachThread) {
  gyre::thread_pool pool({.workers = 3});
  strand serial(pool);
  constexpr int threads = 3;
  constexpr int posts = 5000;
  std::vector<int> last(threads, -1);  // without a lock
  std::atomic<int> left{threads * posts};
  std::promise<void> done;
  bool in_order = true;
  std::vector<std::unique_ptr<call>> calls;
  calls.reserve(threads * posts);
  for (int thread = 0; thread < threads; ++thread) {
    for (int i = 0; i < posts; ++i) {
      calls.push_back(std::make_unique<call>([&, thread, i] {
        auto& before = last[static_cast<std::size_t>(thread)];
        in_order = in_order && before == i - 1;
        before = i;
        if (left.fetch_sub(1) == 1) done.set_value();
      }));
    }
  }
  {
    std::vector<std::jthread> posters;
    for (int thread = 0; thread < threads; ++thread) {
      posters.emplace_back([&, thread] {
        for (int i = 0; i < posts; ++i) {
          serial.post(*calls[static_cast<std::size_t>(thread * posts + i)]);
          if (i % 64 == 0) std::this_thread::yield();
        }
      });
    }
  }
  done.get_future().wait();
  EXPECT_TRUE(in_order);
}

TEST(StrandStress, ManyStrandsShareAPool) {
  gyre::thread_pool pool({.workers = 3});
  constexpr std::size_t strands = 50;
  std::vector<std::unique_ptr<strand>> all;
  std::vector<int> counters(strands);
  std::vector<std::future<int>> ends;
  for (std::size_t i = 0; i < strands; ++i) {
    all.push_back(std::make_unique<strand>(pool));
    for (int each = 0; each < 3; ++each) {
      ends.push_back(gyre::spawn_future(*all[i], count_up(counters[i], 100)));
    }
  }
  for (auto& each : ends) each.get();
  all.clear();
  EXPECT_THAT(counters, testing::Each(300));
}

}  // namespace
}  // namespace strand_test

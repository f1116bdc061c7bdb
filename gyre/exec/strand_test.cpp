// SPDX-License-Identifier: Apache-2.0
// Tests of strands: order, exclusion, fairness, time, and the end of a strand.
#include <gyre/exec/strand.hpp>

#include <gyre/base/operation.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/pool/parallel.hpp>
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
#include <coroutine>
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
  EXPECT_EQ(seen, strand::max_per_turn);
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

// ---- exclusion while an operation waits

// Resumes the coroutine that waits within set(), as events of other libraries do.
class foreign_event {
 public:
  static bool await_ready() noexcept { return false; }
  void await_suspend(std::coroutine_handle<> awaiting) noexcept { waiting_ = awaiting; }
  static void await_resume() noexcept {}
  void set() { std::exchange(waiting_, nullptr).resume(); }

 private:
  std::coroutine_handle<> waiting_;
};

// Whether it resumes in the middle of another coroutine's operation.
gyre::task<bool> resumes_within(foreign_event& event, const bool& other_waits) {
  co_await event;
  co_return other_waits;
}

gyre::task<> waits_by(const std::function<void()>& wait, bool& waits) {
  waits = true;
  wait();
  waits = false;
  co_return;
}

// On one worker, whose helping runs everything else.
bool resumes_a_foreign_wait_within(gyre::thread_pool& pool, foreign_event& event,
                                   const std::function<void()>& wait) {
  strand serial(pool);
  bool waits = false;
  auto resumed = gyre::spawn_future(serial, resumes_within(event, waits));
  auto waited = gyre::spawn_future(serial, waits_by(wait, waits));
  waited.get();
  return resumed.get();
}

TEST(StrandExclusion, AWorkerThatHelpsDuringAWaitForAFutureResumesNoOtherCoroutine) {
  gyre::thread_pool pool({.workers = 1});
  foreign_event event;
  const auto sets = [&] { event.set(); };
  EXPECT_FALSE(resumes_a_foreign_wait_within(pool, event, [&] { pool.submit(sets).get(); }));
  EXPECT_FALSE(resumes_a_foreign_wait_within(pool, event, [&] {
    auto future = pool.submit(sets);
    while (!future.wait_for(1h)) continue;
  }));
}

TEST(StrandExclusion, AWorkerThatHelpsDuringWaitIdleResumesNoOtherCoroutine) {
  gyre::thread_pool pool({.workers = 1});
  foreign_event event;
  EXPECT_FALSE(resumes_a_foreign_wait_within(pool, event, [&] {
    pool.post([&] { event.set(); });
    pool.wait_idle();
  }));
}

TEST(StrandExclusion, AWorkerThatHelpsDuringParallelInvokeResumesNoOtherCoroutine) {
  gyre::thread_pool pool({.workers = 2});
  foreign_event event;
  std::atomic<bool> stolen{false};
  std::atomic<bool> set{false};
  const auto waits_for = [](const std::atomic<bool>& flag) {
    while (!flag) std::this_thread::yield();
  };
  EXPECT_FALSE(resumes_a_foreign_wait_within(pool, event, [&] {
    gyre::parallel_invoke(
        pool,
        [&] {
          waits_for(stolen);
          // Only this worker can run it, while it waits for the other's part.
          pool.post([&] {
            event.set();
            set = true;
          });
        },
        [&] {
          stolen = true;
          waits_for(set);
        });
  }));
}

gyre::task<bool> sleeps_and_resumes_within(const bool& other_waits) {
  co_await gyre::sleep_for(1ms);
  co_return other_waits;
}
gyre::task<> sleeps_longer(bool& ended) {
  co_await gyre::sleep_for(5ms);
  ended = true;
}

TEST(StrandExclusion, ATimerThatExpiresWhileAWorkerHelpsResumesNoOtherCoroutine) {
  gyre::thread_pool pool({.workers = 1});
  strand serial(pool);
  bool waits = false;
  bool later_timer_expired = false;
  auto resumed = gyre::spawn_future(serial, sleeps_and_resumes_within(waits));
  const auto waits_for_later_timer = [&] {
    gyre::spawn(pool, sleeps_longer(later_timer_expired));
    while (!later_timer_expired) pool.submit([] {}).get();
  };
  gyre::spawn_future(serial, waits_by(waits_for_later_timer, waits)).get();
  EXPECT_FALSE(resumed.get());
}

TEST(StrandExclusion, ASyncWaitResumesNoOtherCoroutine) {
  gyre::thread_pool pool({.workers = 1});
  foreign_event event;
  const auto sets = [](foreign_event& to_set) -> gyre::task<> {
    co_await gyre::yield();
    to_set.set();
  };
  EXPECT_FALSE(resumes_a_foreign_wait_within(pool, event, [&] { gyre::sync_wait(sets(event)); }));
  EXPECT_FALSE(resumes_a_foreign_wait_within(pool, event, [&] {
    gyre::loop inner;
    gyre::sync_wait(inner, sets(event));
  }));
}

TEST(StrandExclusion, AnOperationIsHereAgainAfterItsWait) {
  gyre::thread_pool pool({.workers = 1});
  strand serial(pool);
  bool here_within = true;
  bool only_here_within = false;
  bool here_afterwards = false;
  bool pool_within = false;
  const auto wait = [&] {
    pool.submit([&] {
          here_within = serial.running_here();
          only_here_within = serial.runs_only_here();
          pool_within = pool.running_here();
        })
        .get();
    here_afterwards = serial.running_here() && !serial.runs_only_here();
  };
  bool waits = false;
  gyre::spawn_future(serial, waits_by(wait, waits)).get();
  EXPECT_FALSE(here_within);
  EXPECT_TRUE(only_here_within) << "it can run nowhere else now";
  EXPECT_TRUE(pool_within);
  EXPECT_TRUE(here_afterwards);
}

TEST(StrandExclusion, ABlockingAlgorithmThatCouldNeverRunIsRefused) {
  gyre::thread_pool pool({.workers = 1});
  strand serial(pool);
  const auto runs_on_the_strand = [&] { gyre::parallel_for(serial, 0, 1, [](int) {}); };
  std::error_code refused;
  bool waits = false;
  const auto wait = [&] {
    runs_on_the_strand();
    try {
      pool.submit(runs_on_the_strand).get();
    } catch (const std::system_error& error) {
      refused = error.code();
    }
  };
  gyre::spawn_future(serial, waits_by(wait, waits)).get();
  EXPECT_EQ(refused, std::errc::resource_deadlock_would_occur);
}

// ---- children

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

TEST(StrandEnd, MayBeInATaskThatRunsWhileTheLastOperationWaits) {
  gyre::thread_pool pool({.workers = 1});
  std::optional<strand> serial(std::in_place, pool);
  std::promise<void> ended;
  call waits([&] {
    pool.submit([&] { serial.reset(); }).get();
    ended.set_value();
  });
  serial->post(waits);
  ended.get_future().wait();
  EXPECT_FALSE(serial.has_value());
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

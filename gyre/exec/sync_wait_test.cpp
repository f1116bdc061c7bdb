// SPDX-License-Identifier: Apache-2.0
// Tests of sync_wait() with a loop.
#include <gyre/exec/sync_wait.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/task/from_future.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/when_all.hpp>
#include <tests/support/sanitizers.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <coroutine>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace sync_wait_test {
namespace {

using gyre::sync_wait;
using gyre::task;
using testing::ElementsAre;

task<int> hop_to_and_fro(gyre::event_loop& there) {
  gyre::executor& home = co_await gyre::current_executor();
  int hops = 0;
  for (int i = 0; i < 1000; ++i) {
    co_await gyre::resume_on(there);
    hops += there.in_loop_thread() ? 1 : 0;
    co_await gyre::resume_on(home);
    hops += home.running_here() ? 1 : 0;
  }
  co_return hops;
}

TEST(SyncWaitOnALoop, CoroutineHopsBetweenLoops) {
  gyre::loop loop;
  gyre::loop_thread other;
  EXPECT_EQ(sync_wait(loop, hop_to_and_fro(other.loop())), 2000);
}

TEST(SyncWaitOnALoop, CoroutineMayOwnTheSourceOfItsToken) {
  gyre::loop loop;
  auto source = std::make_shared<gyre::inplace_stop_source>();
  const gyre::inplace_stop_token token = source->get_token();
  const std::weak_ptr<gyre::inplace_stop_source> observer = source;
  const auto is_stopped = [](std::shared_ptr<gyre::inplace_stop_source>) -> task<bool> {
    const gyre::inplace_stop_token seen = co_await gyre::current_stop_token();
    co_return seen.stop_requested();
  };
  EXPECT_FALSE(sync_wait(loop, is_stopped(std::move(source)), token));
  EXPECT_TRUE(observer.expired());
}

// Resumes the coroutine that waits within set(), as events of other libraries do.
struct foreign_event {
  static bool await_ready() noexcept { return false; }
  void await_suspend(std::coroutine_handle<> awaiting) noexcept { waiting = awaiting; }
  static void await_resume() noexcept {}
  void set() { std::exchange(waiting, nullptr).resume(); }
  std::coroutine_handle<> waiting;
};
task<> sets(foreign_event& event) {
  event.set();
  co_return;
}
task<bool> resumes_within(foreign_event& event, const bool& other_waits) {
  co_await event;
  co_return other_waits;
}

TEST(SyncWaitOnALoop, ALoopOrASyncWaitOfATaskResumesNoOtherCoroutineOfItsLoop) {
  gyre::loop loop;
  foreign_event event;
  bool waits = false;
  auto runs_a_loop = [](foreign_event& to_set, bool& waits_now) -> task<> {
    co_await gyre::yield();  // to a turn of the loop
    waits_now = true;
    gyre::loop inner;
    sync_wait(inner, sets(to_set));
    waits_now = false;
  };
  auto with_a_loop = gyre::when_all(resumes_within(event, waits), runs_a_loop(event, waits));
  EXPECT_FALSE(std::get<0>(sync_wait(loop, std::move(with_a_loop))));

  auto waits_for_one = [](foreign_event& to_set, bool& waits_now) -> task<> {
    co_await gyre::yield();  // to a turn of the loop
    waits_now = true;
    sync_wait(sets(to_set));
    waits_now = false;
  };
  auto with_a_wait = gyre::when_all(resumes_within(event, waits), waits_for_one(event, waits));
  EXPECT_FALSE(std::get<0>(sync_wait(loop, std::move(with_a_wait))));
}

TEST(SyncWaitOnALoop, ALoopOfAPoolsTaskResumesNoCoroutineOfThePool) {
  gyre::thread_pool pool({.workers = 1});
  foreign_event event;
  bool waits = false;
  auto resumed = gyre::spawn_future(pool, resumes_within(event, waits));
  pool.submit([&] {
        waits = true;
        gyre::loop inner;
        sync_wait(inner, sets(event));
        waits = false;
      })
      .get();
  EXPECT_FALSE(resumed.get());
}

// A thread-local names the thread's loop; the compiler must not keep its address across a
// suspension.
TEST(SyncWaitOnALoop, LoopKnowsItsThreadWithinACoroutineThatHops) {
  gyre::loop loop;
  gyre::loop_thread other;
  auto hops = [](gyre::loop& here, gyre::event_loop& there) -> task<int> {
    int right = 0;
    for (int i = 0; i < 100; ++i) {
      co_await gyre::schedule(there);
      right += there.in_loop_thread() && !here.in_loop_thread() ? 1 : 0;
      right += gyre::event_loop::current() == &there ? 1 : 0;
      co_await gyre::schedule(here);
      right += here.in_loop_thread() && !there.in_loop_thread() ? 1 : 0;
      right += gyre::event_loop::current() == &here ? 1 : 0;
    }
    co_return right;
  };
  EXPECT_EQ(sync_wait(loop, hops(loop, other.loop())), 400);
}

// The thread that posts the coroutine back may be about to wake a loop that has already run the
// coroutine.
TEST(SyncWaitOnALoop, LoopMayEndWhileAnotherThreadStillPostsToIt) {
  gyre::loop_thread other;
  for (int round = 0; round < 1000; ++round) {
    gyre::loop here;
    gyre::sync_wait(here, [](gyre::executor& there, gyre::executor& back) -> gyre::task<> {
      co_await gyre::resume_on(there);
      co_await gyre::resume_on(back);
    }(other.loop(), here));
  }
}

TEST(SyncWaitOnALoop, StartsBeforeOtherTasksAndRunsThemWhileItWaits) {
  gyre::loop loop;
  std::vector<int> log;
  loop.post([&] { log.push_back(2); });
  auto work = [](std::vector<int>& order) -> task<> {
    order.push_back(1);
    co_await gyre::yield();
    order.push_back(3);
  };
  sync_wait(loop, work(log));
  EXPECT_THAT(log, ElementsAre(1, 2, 3));
}

TEST(SyncWaitOnALoop, ReturnsWithoutATurnWhatEndsAtOnce) {
  gyre::loop loop;
  auto ready = []() -> task<int> { co_return 1; };
  EXPECT_EQ(sync_wait(loop, ready()), 1);
  EXPECT_EQ(loop.metrics().turns, 0);
}

task<int> ends_at(gyre::executor& there) {
  co_await gyre::resume_on(there);
  co_return 5;
}

TEST(SyncWaitOnALoop, ReturnsWhatEndedOnAnotherLoop) {
  gyre::loop loop;
  gyre::loop_thread other;
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(sync_wait(loop, ends_at(other.loop())), 5);
}

// Resumes the coroutine like a library that is unaware of loops.
struct on_a_thread_of_its_own {
  static bool await_ready() noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiting) {
    thread->emplace([waiting] { gyre::detail::resume(waiting); });
  }
  static void await_resume() noexcept {}
  std::optional<std::jthread>* thread;
};

TEST(SyncWaitOnALoop, ReturnsWhatAThreadOfOthersResumed) {
  gyre::loop loop;
  auto leaves = [](std::optional<std::jthread>& thread) -> task<int> {
    co_await on_a_thread_of_its_own{&thread};
    co_return 4;
  };
  for (int i = 0; i < 100; ++i) {
    std::optional<std::jthread> thread;
    EXPECT_EQ(sync_wait(loop, leaves(thread)), 4);
  }
}

task<bool> waits_until_asked_to_stop() {
  const gyre::inplace_stop_token token = co_await gyre::current_stop_token();
  while (!token.stop_requested()) co_await gyre::yield();
  co_return true;
}

TEST(SyncWaitOnALoop, StopOfTheLoopStopsTheCoroutineAndStays) {
  gyre::loop loop;
  loop.post([&] { loop.stop(); });
  EXPECT_TRUE(sync_wait(loop, waits_until_asked_to_stop()));
  EXPECT_TRUE(loop.stopped());
  EXPECT_TRUE(sync_wait(loop, waits_until_asked_to_stop())) << "an earlier stop counts, too";
  EXPECT_TRUE(loop.stopped());
}

TEST(SyncWaitOnALoop, HandsOverTheStopToken) {
  gyre::loop loop;
  gyre::inplace_stop_source source;
  loop.post([&] { source.request_stop(); });
  EXPECT_TRUE(sync_wait(loop, waits_until_asked_to_stop(), source.get_token()));
  EXPECT_FALSE(loop.stopped());
}

TEST(SyncWaitOnALoop, IsRefusedToTasksOfTheLoop) {
  gyre::loop loop;
  bool refused = false;
  auto nothing = []() -> task<> { co_return; };
  loop.post([&] {
    try {
      sync_wait(loop, nothing());
    } catch (const std::logic_error&) {
      refused = true;
    }
    loop.stop();
  });
  loop.run();
  EXPECT_TRUE(refused);
}

TEST(SyncWaitOnALoop, IsRefusedWhileAnotherThreadRunsTheLoop) {
  gyre::loop_thread other;
  std::promise<void> running;
  other.loop().post([&] { running.set_value(); });
  running.get_future().wait();
  bool started = false;
  auto starts = [](bool& flag) -> task<> {
    flag = true;
    co_await gyre::yield();
  };
  try {
    sync_wait(other.loop(), starts(started));
    FAIL() << "not refused";
  } catch (const std::logic_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("another thread runs this loop"));
  }
  EXPECT_FALSE(started);
  sync_wait(gyre::on(other.loop(), starts(started)));
  EXPECT_TRUE(started) << "as the message advises";
}

TEST(SyncWaitOnALoop, HoldsTheLoopBeforeItsFirstTurn) {
  gyre::loop loop;
  int refused = 0;
  auto runs_it_elsewhere = [](gyre::loop& target, int& count) -> task<> {
    for (int i = 0; i < 2; ++i) {
      std::thread([&] {
        try {
          target.poll();
        } catch (const std::logic_error&) {
          ++count;
        }
      }).join();
      co_await gyre::yield();
    }
  };
  sync_wait(loop, runs_it_elsewhere(loop, refused));
  EXPECT_EQ(refused, 2);
  std::thread([&] { EXPECT_FALSE(loop.poll()); }).join();
}

TEST(SyncWaitOnALoop, TheFirstPartOfItsCoroutineMayRunTheLoop) {
  gyre::loop loop;
  bool ran = false;
  auto runs_it_here = [](gyre::loop& target) -> task<> {
    target.poll();
    co_await gyre::yield();
  };
  loop.post([&] { ran = true; });
  sync_wait(loop, runs_it_here(loop));
  EXPECT_TRUE(ran);
}

TEST(SyncWaitOnALoop, ThrowsWhatTheCoroutineThrew) {
  gyre::loop loop;
  auto fails = []() -> task<> {
    co_await gyre::yield();
    throw std::runtime_error("no");
  };
  EXPECT_THROW(sync_wait(loop, fails()), std::runtime_error);
}

// When the task throws, the coroutine is in the loop's queue, and must not be destroyed there.
TEST(SyncWaitOnALoop, StopsTheCoroutineBeforeItThrowsWhatATaskThrew) {
  gyre::loop loop(
      {.on_exception = [](std::exception_ptr error) { std::rethrow_exception(error); }});
  loop.post([] { throw std::runtime_error("of a task"); });
  bool ended = false;
  auto waits = [](bool& flag) -> task<> { flag = co_await waits_until_asked_to_stop(); };
  EXPECT_THROW(sync_wait(loop, waits(ended)), std::runtime_error);
  EXPECT_TRUE(ended);
  EXPECT_FALSE(loop.poll());
}

task<> hops_to(gyre::event_loop& there, bool& arrived) {
  co_await gyre::resume_on(there);
  arrived = true;
}

// sync_wait() without the loop, on the thread that should run the loop: the most frequent mistake.
class SyncWaitBesideALoop : public testing::Test {
 protected:
  void SetUp() override {
    if (!gyre::detail::checks_deadlocks || gyre::test::thread_sanitizer_is_on) {
      GTEST_SKIP() << "this build waits for ever";
    }
  }
  static std::error_code error_of(task<> work) {
    try {
      sync_wait(std::move(work));
    } catch (const std::system_error& error) {
      return error.code();
    }
    return {};
  }
};

TEST_F(SyncWaitBesideALoop, ReportsWhatTheLoopThenDoesNotRunAnyMore) {
  gyre::loop loop;
  bool arrived = false;
  EXPECT_EQ(error_of(hops_to(loop, arrived)), std::errc::resource_deadlock_would_occur);
  auto body = [&](gyre::scope& scope) -> task<> {
    scope.spawn(loop, hops_to(loop, arrived));
    scope.spawn(hops_to(loop, arrived));
    co_return;
  };
  EXPECT_EQ(error_of(gyre::with_scope(body)), std::errc::resource_deadlock_would_occur);
  while (loop.poll()) {
  }
  EXPECT_FALSE(arrived);
}

TEST_F(SyncWaitBesideALoop, LeavesInItsQueueWhatTheLoopForgetsWhenItIsDestroyed) {
  bool arrived = false;
  {
    gyre::loop loop;
    EXPECT_EQ(error_of(hops_to(loop, arrived)), std::errc::resource_deadlock_would_occur);
  }
  EXPECT_FALSE(arrived);
}

task<> takes(std::future<int> number, gyre::executor& waits_here, bool& went_on) {
  co_await gyre::from_future(std::move(number), waits_here);
  went_on = true;
}

TEST_F(SyncWaitBesideALoop, LeavesToTheLoopWhatWaitsThere) {
  gyre::loop loop;
  bool went_on = false;
  std::promise<int> promise;
  EXPECT_EQ(error_of(takes(promise.get_future(), loop, went_on)),
            std::errc::resource_deadlock_would_occur);
  promise.set_value(1);
  while (loop.poll()) {
  }
  EXPECT_FALSE(went_on);
}

TEST_F(SyncWaitBesideALoop, DoesNotReportTasksOfAPoolThatSleep) {
  gyre::thread_pool pool;
  int ran = 0;
  auto body = [&](gyre::scope& scope) -> task<> {
    for (int i = 0; i < 100; ++i) {
      scope.spawn(gyre::on(pool, gyre::when_all(gyre::yield(), gyre::schedule(pool))));
      co_await gyre::on(pool, gyre::yield());
      ++ran;
    }
  };
  EXPECT_EQ(error_of(gyre::with_scope(body)), std::error_code());
  EXPECT_EQ(ran, 100);
}

}  // namespace
}  // namespace sync_wait_test

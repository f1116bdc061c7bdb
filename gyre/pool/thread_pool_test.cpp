// SPDX-License-Identifier: Apache-2.0
// Tests of the guarantees of thread_pool, with each scheduler.
#include <gyre/pool/thread_pool.hpp>

#include <gyre/base/available_parallelism.hpp>
#include <gyre/pool/thread_pool_test_support.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/stop_when.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <tests/support/sanitizers.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <mutex>
#include <numeric>
#include <ranges>
#include <semaphore>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace thread_pool_test {
namespace {

using gyre::scheduler;
using gyre::task;
using gyre::task_priority;
using gyre::thread_pool;
using gyre::when_full;
using gyre::test::busy_worker;
using gyre::test::error_of;
using testing::ElementsAre;
using namespace std::chrono_literals;

class ThreadPool : public testing::TestWithParam<scheduler> {
 protected:
  static gyre::thread_pool_options with(std::size_t workers, std::size_t capacity = 1 << 15,
                                        when_full policy = when_full::block) {
    return {.workers = workers, .scheduler = GetParam(), .capacity = capacity, .when_full = policy};
  }
};

INSTANTIATE_TEST_SUITE_P(Each, ThreadPool,
                         testing::Values(scheduler::stealing, scheduler::blocking,
                                         scheduler::spinning),
                         gyre::test::scheduler_name);

// Submits itself until `ended` is set, so that the queue never becomes empty.
struct endless {
  thread_pool& pool;
  std::atomic<bool>& ended;
  task_priority priority = task_priority::normal;

  void operator()() const {
    if (!ended) pool.post(*this, priority);
  }
};

// ---- tasks

TEST_P(ThreadPool, RunsEachTaskOnceAndOnAWorker) {
  thread_pool pool(with(2));
  std::array<std::atomic<int>, 1000> runs{};
  std::atomic<int> elsewhere = 0;
  for (auto& run : runs) {
    pool.post([&] {
      ++run;
      if (!pool.running_here()) ++elsewhere;
    });
  }
  pool.wait_idle();
  for (const auto& run : runs) EXPECT_EQ(run, 1);
  EXPECT_EQ(elsewhere, 0);
  EXPECT_FALSE(pool.running_here());
}

TEST_P(ThreadPool, GivesWhatASubmittedTaskReturnsOrThrows) {
  thread_pool pool(with(2));
  auto value = pool.submit([] { return 42; });
  auto nothing = pool.submit([] {});
  auto error = pool.submit([]() -> int { throw std::runtime_error("no"); });
  EXPECT_EQ(value.get(), 42);
  nothing.get();
  EXPECT_THROW(error.get(), std::runtime_error);
}

TEST_P(ThreadPool, TakesCallablesOfAnyShape) {
  thread_pool pool(with(1));
  struct alignas(64) aligned {
    std::size_t value = 3;
  };
  std::atomic<std::size_t> sum = 0;
  auto only_movable = [&sum, owned = std::make_unique<int>(1)] {
    sum += static_cast<std::size_t>(*owned);
  };
  auto large = [&sum, filling = std::array<char, 5000>{2}] {
    sum += static_cast<std::size_t>(filling[0]);
  };
  auto over_aligned = [&sum, kept = aligned{}] {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&kept) % alignof(aligned), 0U);
    sum += kept.value;
  };
  const auto copied = [&sum] { sum += 4; };
  pool.post(std::move(only_movable));
  pool.post(std::move(large));
  pool.post(std::move(over_aligned));
  pool.post(copied);
  pool.post(std::ref(copied));
  pool.wait_idle();
  EXPECT_EQ(sum, 14U);
}

std::atomic<int> calls_of_a_function = 0;
void a_function() {
  ++calls_of_a_function;
  calls_of_a_function.notify_all();
}

TEST_P(ThreadPool, TakesAFunction) {
  calls_of_a_function = 0;
  thread_pool pool(with(2));
  pool.post(a_function);
  pool.post(&a_function);
  EXPECT_TRUE(pool.try_post(a_function));
  pool.post(a_function, task_priority::low);
  pool.post_after(0ns, a_function);
  pool.submit(a_function).get();
  // wait_idle() does not wait for a delayed task until that is due.
  for (int seen = calls_of_a_function; seen != 6; seen = calls_of_a_function) {
    calls_of_a_function.wait(seen);
  }
}

TEST_P(ThreadPool, TasksOfOneThreadStartInTheOrderOfSubmission) {
  thread_pool pool(with(1));
  std::vector<int> order;
  std::vector<int> expected(1000);
  std::iota(expected.begin(), expected.end(), 0);
  for (int i = 0; i < 1000; ++i) pool.post([&order, i] { order.push_back(i); });
  pool.wait_idle();
  EXPECT_EQ(order, expected);
}

TEST_P(ThreadPool, PostsARangeInOneCall) {
  thread_pool pool(with(2));
  std::atomic<int> sum = 0;
  std::vector<std::function<void()>> tasks(100, [&sum] { ++sum; });
  pool.post_bulk(tasks);
  pool.post_bulk(std::move(tasks));
  pool.wait_idle();
  EXPECT_EQ(sum, 200);
}

TEST_P(ThreadPool, LeavesWhatAViewOfARangeShows) {
  thread_pool pool(with(1));
  std::vector<std::function<void()>> tasks(3, [] {});
  pool.post_bulk(tasks | std::views::filter([](const auto& each) { return each != nullptr; }));
  pool.wait_idle();
  for (const auto& each : tasks) EXPECT_TRUE(each);
}

TEST_P(ThreadPool, HighGoesBeforeNormalAndNormalBeforeLow) {
  thread_pool pool(with(1));
  std::vector<char> order;
  pool.pause();
  pool.post([&] { order.push_back('l'); }, task_priority::low);
  pool.post([&] { order.push_back('n'); });
  pool.post([&] { order.push_back('h'); }, task_priority::high);
  pool.resume();
  pool.wait_idle();
  EXPECT_THAT(order, ElementsAre('h', 'n', 'l'));
}

TEST_P(ThreadPool, LowGoesOnceItHasAgedThoughOthersKeepComing) {
  auto options = with(1);
  options.aging = 1ms;
  thread_pool pool(std::move(options));
  std::atomic<bool> low_ran = false;
  pool.pause();
  pool.post([&] { low_ran = true; }, task_priority::low);
  pool.post(endless{pool, low_ran, task_priority::high}, task_priority::high);
  pool.resume();
  pool.wait_idle();
  EXPECT_TRUE(low_ran);
}

TEST_P(ThreadPool, NormalTasksAreNotStarvedByHighOnes) {
  thread_pool pool(with(1));
  std::atomic<bool> normal_ran = false;
  pool.pause();
  pool.post([&] { normal_ran = true; });
  pool.post(endless{pool, normal_ran, task_priority::high}, task_priority::high);
  pool.resume();
  pool.wait_idle();
  EXPECT_TRUE(normal_ran);
}

TEST_P(ThreadPool, SubmissionsOfAWorkerToItselfDoNotStarveOthers) {
  thread_pool pool(with(1));
  std::atomic<bool> other_ran = false;
  pool.pause();
  pool.post(endless{pool, other_ran});
  pool.post([&] { other_ran = true; });
  pool.resume();
  pool.wait_idle();
  EXPECT_TRUE(other_ran);
}

TEST_P(ThreadPool, ExceptionOfAPostedTaskGoesToTheHandler) {
  std::atomic<int> caught = 0;
  auto options = with(2);
  options.on_exception = [&](const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::runtime_error&) {
      ++caught;
    }
  };
  thread_pool pool(std::move(options));
  for (int i = 0; i < 10; ++i) pool.post([] { throw std::runtime_error("no"); });
  pool.wait_idle();
  EXPECT_EQ(caught, 10);
  EXPECT_EQ(pool.metrics().exceptions, 10U);
}

using ThreadPoolDeathTest = ThreadPool;
INSTANTIATE_TEST_SUITE_P(Each, ThreadPoolDeathTest, testing::Values(scheduler::stealing),
                         gyre::test::scheduler_name);

TEST_P(ThreadPoolDeathTest, ExceptionOfAPostedTaskEndsTheProgramByDefault) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        thread_pool pool(with(1));
        pool.post([] { throw std::runtime_error("who catches this?"); });
        pool.wait_idle();
      },
      "left a task of a pool: who catches this");
}

// ---- the bound

TEST_P(ThreadPool, RejectsWhatExceedsTheCapacity) {
  thread_pool pool(with(1, 3, when_full::reject));
  busy_worker busy(pool);
  EXPECT_TRUE(pool.try_post([] {}));
  pool.post([] {});
  auto third = pool.submit([] { return 3; });
  EXPECT_FALSE(pool.try_post([] {}));
  EXPECT_EQ(error_of([&] { pool.post([] {}); }), std::errc::resource_unavailable_try_again);
  EXPECT_EQ(error_of([&] { static_cast<void>(pool.submit([] {})); }),
            std::errc::resource_unavailable_try_again);
  EXPECT_FALSE(pool.try_post([] {}, task_priority::high));
  EXPECT_EQ(pool.metrics().refused, 4U);
  EXPECT_EQ(pool.metrics().waiting, 3U);
  busy.end();
  EXPECT_EQ(third.get(), 3);
}

TEST_P(ThreadPool, LeavesARefusedCallableAsItWas) {
  thread_pool pool(with(1, 1, when_full::reject));
  busy_worker busy(pool);
  pool.post([] {});
  auto small = [owned = std::make_unique<int>(1)] { EXPECT_EQ(*owned, 1); };
  EXPECT_FALSE(pool.try_post(std::move(small)));
  small();  // NOLINT(bugprone-use-after-move): refused
  busy.end();
}

TEST_P(ThreadPool, LeavesARefusedCallableAsItWasWhereTasksAreTimed) {
  auto options = with(1, 1, when_full::reject);
  options.record_times = true;
  thread_pool pool(std::move(options));
  busy_worker busy(pool);
  pool.post([] {});
  auto task = [owned = std::make_unique<int>(1)] { EXPECT_EQ(*owned, 1); };
  EXPECT_FALSE(pool.try_post(std::move(task)));
  task();  // NOLINT(bugprone-use-after-move): refused
  busy.end();
}

TEST_P(ThreadPool, ThreadsThatSubmitSeldomDoNotHoldTheSlotsOfOthers) {
  constexpr std::size_t threads = 200;
  thread_pool pool(with(1, 1024, when_full::reject));
  std::latch posted(threads);
  std::latch counted(1);
  std::vector<std::jthread> idle;
  for (std::size_t i = 0; i < threads; ++i) {
    idle.emplace_back([&] {
      pool.post([] {});
      posted.count_down();
      counted.wait();
    });
  }
  posted.wait();
  pool.wait_idle();
  busy_worker busy(pool);
  std::size_t taken = 0;
  while (pool.try_post([] {})) ++taken;
  EXPECT_GE(taken, 1024U - 4 * threads);
  EXPECT_GE(taken, 200U);
  counted.count_down();
  busy.end();
}

TEST_P(ThreadPool, BlocksASubmitterUntilThereIsASlot) {
  thread_pool pool(with(1, 2));
  busy_worker busy(pool);
  pool.post([] {});
  pool.post([] {});
  EXPECT_FALSE(pool.try_post([] {}));
  std::atomic<int> ran = 0;
  std::jthread submitter([&] {
    for (int i = 0; i < 100; ++i) pool.post([&] { ++ran; });
  });
  busy.end();
  submitter.join();
  pool.wait_idle();
  EXPECT_EQ(ran, 100);
  EXPECT_EQ(pool.metrics().refused, 1U);
}

TEST_P(ThreadPool, BlocksASubmitterNoLongerThanItShall) {
  auto options = with(1, 1);
  options.block_timeout = 1ms;
  thread_pool pool(std::move(options));
  busy_worker busy(pool);
  pool.post([] {});
  EXPECT_EQ(error_of([&] { pool.post([] {}); }), std::errc::timed_out);
  EXPECT_EQ(error_of([&] { pool.post([] {}, task_priority::high); }), std::errc::timed_out);
  busy.end();
}

// submit() would block the loop, which then could not let the worker go on.
TEST_P(ThreadPool, ACoroutineWaitsForASlotWithoutBlockingItsThread) {
  for (const task_priority priority : {task_priority::normal, task_priority::low}) {
    thread_pool pool(with(1, 2));
    busy_worker busy(pool);
    while (pool.try_post([] {})) continue;
    bool submitted = false;
    const auto submit = [&]() -> task<int> {
      auto submitting = pool.async_submit([] { return 42; }, priority);
      gyre::future<int> answer = co_await std::move(submitting);
      submitted = true;
      co_return co_await std::move(answer);
    };
    const auto let_go = [&]() -> task<> {
      co_await gyre::yield();
      EXPECT_FALSE(submitted);
      busy.end();
    };
    EXPECT_EQ(std::get<0>(gyre::sync_wait(gyre::when_all(submit(), let_go()))), 42);
  }
}

TEST_P(ThreadPool, CoroutinesAndThreadsThatWaitForSlotsAllGetThem) {
  thread_pool pool(with(2, 3));
  std::atomic<int> runs = 0;
  const auto post_many = [&]() -> task<> {
    for (int i = 0; i < 500; ++i) {
      auto posting = pool.async_post([&] { ++runs; });
      co_await std::move(posting);
    }
  };
  {
    const std::jthread blocked([&] {
      for (int i = 0; i < 500; ++i) pool.post([&] { ++runs; });
    });
    const std::jthread awaiting([&] { gyre::sync_wait(post_many()); });
    gyre::sync_wait(gyre::when_all(post_many(), post_many()));
  }
  pool.drain();
  EXPECT_EQ(runs, 2000);
}

TEST_P(ThreadPool, ACoroutineThatIsStoppedWhileItWaitsForASlotSubmitsNothing) {
  thread_pool pool(with(1, 1));
  busy_worker busy(pool);
  while (pool.try_post([] {})) continue;
  const auto before = pool.metrics().submitted;
  gyre::inplace_stop_source stop;
  const auto post = [&]() -> task<> {
    auto posting = pool.async_post([] { ADD_FAILURE() << "was submitted"; });
    co_await std::move(posting);
  };
  const auto press = [&]() -> task<> {
    stop.request_stop();
    co_return;
  };
  auto stopped = [&] {
    gyre::sync_wait(gyre::when_all(gyre::stop_when(post(), stop.get_token()), press()));
  };
  EXPECT_EQ(error_of(stopped), std::errc::operation_canceled);
  EXPECT_EQ(pool.metrics().submitted, before);
  busy.end();
  pool.post([] {});
}

TEST_P(ThreadPool, TheEndRefusesCoroutinesThatWaitForASlot) {
  thread_pool pool(with(1, 1));
  busy_worker busy(pool);
  while (pool.try_post([] {})) continue;
  const auto post = [&]() -> task<> {
    auto posting = pool.async_post([] {});
    co_await std::move(posting);
  };
  std::jthread ending;
  const auto end = [&]() -> task<> {
    ending = std::jthread([&] { pool.drain(); });
    co_return;
  };
  EXPECT_EQ(error_of([&] { gyre::sync_wait(gyre::when_all(post(), end())); }),
            std::errc::operation_canceled);
  busy.end();
}

TEST_P(ThreadPool, AsyncSubmissionsHeedThePolicy) {
  {
    thread_pool pool(with(1, 1, when_full::reject));
    busy_worker busy(pool);
    while (pool.try_post([] {})) continue;
    EXPECT_EQ(error_of([&] { gyre::sync_wait(gyre::as_task(pool.async_post([] {}))); }),
              std::errc::resource_unavailable_try_again);
    busy.end();
  }
  {
    thread_pool pool(with(1, 1, when_full::drop_oldest));
    busy_worker busy(pool);
    pool.post([] { ADD_FAILURE() << "was not dropped"; });
    gyre::sync_wait(gyre::as_task(pool.async_post([] {})));
    busy.end();
  }
}

// The blocked thread is served although another thread submits whenever it can.
TEST_P(ThreadPool, ABlockedSubmitterIsServedBesideOneThatTriesAllTheTime) {
  thread_pool pool(with(1, 4096));
  std::atomic<bool> over = false;
  std::jthread greedy([&] {
    while (!over) static_cast<void>(pool.try_post([] {}));
  });
  for (int i = 0; i < 2000; ++i) pool.post([] {});
  over = true;
}

TEST_P(ThreadPool, LetsTheSubmitterRunWhatHasNoSlot) {
  thread_pool pool(with(1, 1, when_full::caller_runs));
  busy_worker busy(pool);
  pool.post([] {});
  std::thread::id there;
  pool.post([&] { there = std::this_thread::get_id(); });
  EXPECT_EQ(there, std::this_thread::get_id());
  EXPECT_EQ(pool.submit([] { return 7; }).get(), 7);
  EXPECT_EQ(pool.metrics().run_by_submitter, 2U);
  busy.end();
}

TEST_P(ThreadPool, AChainOfTasksThatTheSubmitterRunsKeepsTheStackFlat) {
  thread_pool pool(with(1, 1, when_full::caller_runs));
  busy_worker busy(pool);
  pool.post([] {});
  std::atomic<int> ran = 0;
  struct link {
    thread_pool& pool;
    std::atomic<int>& ran;
    void operator()() const {
      if (++ran < 100'000) pool.post(*this);
    }
  };
  pool.post(link{pool, ran});
  EXPECT_GE(ran, 1);
  busy.end();
  pool.wait_idle();
  EXPECT_EQ(ran, 100'000);
}

TEST_P(ThreadPool, HasNothingToDropWhereDelayedTasksHaveAllSlots) {
  thread_pool pool(with(1, 2, when_full::drop_oldest));
  for (int i = 0; i < 2; ++i) pool.post_after(std::chrono::hours(1), [] {});
  EXPECT_FALSE(pool.try_post([] {}));
  EXPECT_EQ(pool.metrics().dropped, 0U);
}

TEST_P(ThreadPool, DropsTheOldestForTheNewest) {
  thread_pool pool(with(1, 2, when_full::drop_oldest));
  busy_worker busy(pool);
  auto first = pool.submit([] { return 1; });
  auto second = pool.submit([] { return 2; });
  auto third = pool.submit([] { return 3; });
  EXPECT_EQ(error_of([&] { first.get(); }), std::errc::operation_canceled);
  EXPECT_TRUE(pool.try_post([] {}));
  EXPECT_EQ(error_of([&] { second.get(); }), std::errc::operation_canceled);
  busy.end();
  EXPECT_EQ(third.get(), 3);
  pool.wait_idle();
  EXPECT_EQ(pool.metrics().dropped, 2U);
}

TEST_P(ThreadPool, SlotsOfThreadsThatEndedComeBack) {
  thread_pool pool(with(2, 512));
  std::atomic<int> ran = 0;
  for (int i = 0; i < 1000; ++i) {
    std::thread([&] { pool.post([&] { ++ran; }); }).join();
  }
  pool.wait_idle();
  EXPECT_EQ(ran, 1000);
}

// A worker that waits for a slot would wait for itself.
struct throws_when_copied {
  throws_when_copied() = default;
  throws_when_copied(const throws_when_copied&) { throw std::runtime_error("copied"); }
  void operator()() const {}
};

TEST_P(ThreadPool, ACallableThatThrowsWhenCopiedTakesNoSlot) {
  thread_pool pool(with(1, 1, when_full::reject));
  const throws_when_copied callable;
  EXPECT_THROW(pool.post(callable), std::runtime_error);
  std::jthread([&] { EXPECT_TRUE(pool.try_post([] {})); }).join();
  pool.wait_idle();
  EXPECT_THROW(pool.post(callable, task_priority::high), std::runtime_error);
  EXPECT_THROW(pool.post(callable), std::runtime_error);
  EXPECT_NO_THROW(pool.post([] {}, task_priority::high));
  pool.wait_idle();
  EXPECT_EQ(pool.metrics().finished, 2U);
}

TEST_P(ThreadPool, WorkerThatSubmitsIntoAFullPoolDoesNotWait) {
  for (const auto policy :
       {when_full::block, when_full::caller_runs, when_full::drop_oldest, when_full::reject}) {
    thread_pool pool(with(1, 1, policy));
    std::atomic<int> submitted = 0;
    pool.post([&] {
      for (int i = 0; i < 5000; ++i) {
        if (pool.try_post([] {})) ++submitted;
      }
    });
    pool.wait_idle();
    const auto counted = pool.metrics();
    EXPECT_EQ(counted.submitted, counted.finished + counted.dropped);
    EXPECT_EQ(static_cast<std::uint64_t>(submitted) + 1,
              counted.submitted + counted.run_by_submitter);
    EXPECT_EQ(static_cast<std::uint64_t>(submitted) + counted.refused, 5000U);
    if (policy == when_full::block || policy == when_full::caller_runs) {
      EXPECT_EQ(submitted, 5000);
    }
  }
}

TEST_P(ThreadPool, SubmissionsOfAWorkerAreBoundedToo) {
  for (const auto priority : {task_priority::high, task_priority::normal, task_priority::low}) {
    thread_pool pool(with(1, 4));
    std::size_t most = 0;
    pool.post([&] {
      for (int i = 0; i < 10000; ++i) pool.post([] {}, priority);
      most = pool.metrics().waiting;
    });
    pool.wait_idle();
    EXPECT_GT(most, 4U);
    EXPECT_LE(most, 4U + 1024U);
  }
}

TEST_P(ThreadPool, DropsLowPriorityFirst) {
  thread_pool pool(with(1, 3, when_full::drop_oldest));
  busy_worker busy(pool);
  auto normal = pool.submit([] {});
  auto low = pool.submit([] {}, task_priority::low);
  auto high = pool.submit([] {}, task_priority::high);
  pool.post([] {});
  EXPECT_EQ(error_of([&] { low.get(); }), std::errc::operation_canceled);
  pool.post([] {});
  EXPECT_EQ(error_of([&] { normal.get(); }), std::errc::operation_canceled);
  busy.end();
  high.get();
}

TEST_P(ThreadPool, AThreadUsesTheSlotsItHoldsForTasksOfEachPriority) {
  thread_pool pool(with(1, 4096, when_full::reject));
  busy_worker busy(pool);
  pool.post([] {});  // may take slots for later tasks, too
  std::size_t accepted = 0;
  while (accepted < 4096 && pool.try_post([] {}, task_priority::low)) ++accepted;
  EXPECT_GE(accepted, 4096u - 2) << "besides the task that waits, and the one that runs";
  busy.end();
}

void grow(thread_pool& pool, std::atomic<int>& leaves, int depth) {
  if (depth == 0) {
    ++leaves;
    return;
  }
  for (int i = 0; i < 2; ++i) pool.post([&, depth] { grow(pool, leaves, depth - 1); });
}

TEST_P(ThreadPool, TreeOfSubmissionsRunsWholeThoughThePoolIsFull) {
  thread_pool pool(with(2, 4));
  std::atomic<int> leaves = 0;
  pool.post([&] { grow(pool, leaves, 12); });
  pool.wait_idle();
  EXPECT_EQ(leaves, 1 << 12);
}

// If the task ran at once whenever there is no slot, the stack would grow without end.
TEST_P(ThreadPool, TaskThatSubmitsItselfRunsInConstantStackThoughThePoolIsFull) {
  for (const auto policy : {when_full::block, when_full::caller_runs}) {
    thread_pool pool(with(1, 1, policy));
    std::atomic<int> left = 50000;
    struct again {
      thread_pool& pool;
      std::atomic<int>& left;
      void operator()() const {
        if (--left > 0) pool.post(again{pool, left});
      }
    };
    pool.post(again{pool, left});
    std::jthread other([&] {
      while (left > 0) pool.post([] {});
    });
    other.join();
    pool.wait_idle();
    EXPECT_LE(left, 0);
  }
}

// ---- waiting within tasks

TEST_P(ThreadPool, TasksThatWaitForTasksNeedNoFurtherWorkers) {
  thread_pool pool(with(1));
  struct fibonacci {
    thread_pool& pool;
    int n;
    int operator()() const {
      if (n < 2) return n;
      auto left = pool.submit(fibonacci{pool, n - 1});
      auto right = pool.submit(fibonacci{pool, n - 2});
      return left.get() + right.get();
    }
  };
  EXPECT_EQ(pool.submit(fibonacci{pool, 12}).get(), 144);
}

TEST_P(ThreadPool, TaskWaitsUntilAllOthersAreDone) {
  thread_pool pool(with(2));
  std::atomic<int> ran = 0;
  auto waited = pool.submit([&] {
    for (int i = 0; i < 100; ++i) pool.post([&] { ++ran; });
    pool.wait_idle();
    return ran.load();
  });
  EXPECT_EQ(waited.get(), 100);
}

TEST_P(ThreadPool, TasksThatWaitUntilAllIsDoneDoNotWaitForEachOther) {
  thread_pool pool(with(2));
  std::latch both(2);
  for (int i = 0; i < 2; ++i) {
    pool.post([&] {
      both.arrive_and_wait();
      pool.wait_idle();
    });
  }
  pool.wait_idle();
  EXPECT_EQ(pool.metrics().finished, 2U);
}

TEST_P(ThreadPool, WaitWithinAWaitEnds) {
  thread_pool pool(with(1));
  int ended = 0;
  pool.post([&] {
    pool.post([&] {
      pool.post([&] { ++ended; });
      pool.wait_idle();
      ++ended;
    });
    pool.wait_idle();
    ++ended;
  });
  pool.wait_idle();
  EXPECT_EQ(ended, 3);
}

TEST_P(ThreadPool, WaitWithinATaskEndsWithItsTimeThoughThereIsAlwaysWork) {
  thread_pool pool(with(1));
  std::atomic<bool> over = false;
  pool.post([&] {
    pool.post(endless{pool, over});
    EXPECT_FALSE(pool.wait_idle_for(1ms));
    over = true;
  });
  pool.wait_idle();
}

TEST_P(ThreadPool, HelpingStopsWhereTheStackEnds) {
  std::promise<void> opened;
  const std::shared_future<void> gate = opened.get_future().share();
  thread_pool other(with(1));
  auto waited = other.submit([gate] { gate.wait(); });
  {
    thread_pool pool(with(1));
    for (int i = 0; i < 20000; ++i) {
      pool.post([&] {
        std::array<volatile char, 2000> frame{};
        frame[0] = 1;
        waited.wait_for(0ns);
        static_cast<void>(pool.wait_idle_for(0ns));
        if (waited.ready()) return;
        try {
          pool.submit([] {}).wait();
        } catch (const std::system_error& error) {  // the worker waited before the gate opened
          EXPECT_EQ(error.code(), std::errc::resource_deadlock_would_occur);
        }
      });
    }
    opened.set_value();
    pool.drain();
    EXPECT_EQ(pool.metrics().waiting, 0U);
  }
}

// Each task waits for the next task, and runs it on its own stack, until a wait fails. Each call
// takes much stack.
struct chain_of_waits {
  thread_pool& pool;
  std::atomic<bool> broken = false;

  int length(int left) {
    if (left == 0 || broken) return 0;
    std::array<volatile char, 16 * 1024> room{};
    room[0] = 1;
    try {
      return 1 + pool.submit([this, left] { return length(left - 1); }).get();
    } catch (const std::system_error&) {
      broken = true;
      throw;
    }
  }
};

TEST_P(ThreadPool, AChainOfWaitsThatIsDeeperThanAllStacksIsADeadlock) {
  // ThreadSanitizer's runtime crashes if calls nest so deep.
  if (gyre::test::thread_sanitizer_is_on) GTEST_SKIP();
  thread_pool pool(with(2));
  chain_of_waits too_long{pool};
  auto failing = pool.submit([&] { return too_long.length(1'000'000); });
  EXPECT_EQ(error_of([&] { failing.get(); }), std::errc::resource_deadlock_would_occur);
  pool.wait_idle();
  chain_of_waits short_enough{pool};
  auto shorter = pool.submit([&] { return short_enough.length(100); });
  EXPECT_EQ(shorter.get(), 100) << "the pool goes on";
}

TEST_P(ThreadPool, WaitForIdleEndsWithItsTime) {
  thread_pool pool(with(1));
  EXPECT_TRUE(pool.wait_idle_for(0ns));
  busy_worker busy(pool);
  EXPECT_FALSE(pool.wait_idle_for(1ms));
  busy.end();
  EXPECT_TRUE(pool.wait_idle_for(1h));
}

// ---- pausing, purging, resizing

TEST_P(ThreadPool, StartsNothingWhilePaused) {
  thread_pool pool(with(2));
  pool.pause();
  EXPECT_TRUE(pool.paused());
  std::atomic<int> ran = 0;
  for (int i = 0; i < 100; ++i) pool.post([&] { ++ran; });
  EXPECT_FALSE(pool.wait_idle_for(5ms));
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(pool.metrics().waiting, 100U);
  pool.resume();
  pool.wait_idle();
  EXPECT_EQ(ran, 100);
}

TEST_P(ThreadPool, PurgeDropsWhatWaitsWhereverItIs) {
  thread_pool pool(with(1));
  std::atomic<int> ran = 0;
  std::binary_semaphore submitted(0);
  std::binary_semaphore purged(0);
  pool.post([&] {
    for (int i = 0; i < 10; ++i) pool.post([&] { ++ran; });  // in its own queue
    submitted.release();
    purged.acquire();
  });
  submitted.acquire();
  for (int i = 0; i < 600; ++i) pool.post([&] { ++ran; });
  pool.post([&] { ++ran; }, task_priority::high);
  pool.post([&] { ++ran; }, task_priority::low);
  auto kept = pool.submit([] { return 1; });
  EXPECT_EQ(pool.purge(), 613U);
  purged.release();
  pool.wait_idle();
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(pool.metrics().dropped, 613U);
  EXPECT_EQ(error_of([&] { kept.get(); }), std::errc::operation_canceled);
}

TEST_P(ThreadPool, PurgeLeavesCoroutines) {
  thread_pool pool(with(1));
  pool.pause();
  gyre::test::counted_operation op;
  pool.post(op);
  pool.post([] {});
  EXPECT_EQ(pool.purge(), 1U);
  pool.resume();
  pool.wait_idle();
  EXPECT_EQ(op.runs, 1);
}

TEST_P(ThreadPool, PurgeLeavesTheOrderOfCoroutines) {
  thread_pool pool(with(1));
  std::vector<int> order;
  struct numbered : gyre::operation {
    numbered() : operation([](gyre::operation& self) { static_cast<numbered&>(self).enter(); }) {}
    void enter() { order->push_back(number); }
    std::vector<int>* order = nullptr;
    int number = 0;
  };
  std::array<numbered, 50> operations;
  pool.pause();
  for (int i = 0; i < 50; ++i) {
    auto& each = operations[static_cast<std::size_t>(i)];
    each.order = &order;
    each.number = i;
    pool.post(each);
  }
  EXPECT_EQ(pool.purge(), 0U);
  pool.resume();
  pool.wait_idle();
  EXPECT_TRUE(std::ranges::is_sorted(order));
  EXPECT_EQ(order.size(), operations.size());
}

TEST_P(ThreadPool, PurgeEndsThoughOthersSubmit) {
  thread_pool pool(with(1, 64));
  std::atomic<bool> purged = false;
  pool.pause();
  std::jthread submitter([&] {
    while (!purged) static_cast<void>(pool.try_post([] {}));
  });
  for (int i = 0; i < 10; ++i) pool.purge();
  purged = true;
}

TEST_P(ThreadPool, PurgedTasksGiveTheirSlotsBack) {
  thread_pool pool(with(1, 10, when_full::reject));
  busy_worker busy(pool);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(pool.try_post([] {}));
    EXPECT_FALSE(pool.try_post([] {}));
    EXPECT_EQ(pool.purge(), 10U);
  }
  busy.end();
}

TEST_P(ThreadPool, GrowsAndShrinksAtRunTime) {
  thread_pool pool(with(1));
  EXPECT_EQ(pool.workers(), 1U);
  pool.resize(4);
  EXPECT_EQ(pool.workers(), 4U);
  std::latch all(4);  // needs four at once
  for (int i = 0; i < 4; ++i) pool.post([&] { all.arrive_and_wait(); });
  pool.wait_idle();
  pool.resize(1);
  std::atomic<int> at_once = 0;
  std::atomic<int> most = 0;
  pool.resize(3);
  pool.resize(1);
  std::atomic<int> ran = 0;
  for (int i = 0; i < 100; ++i) pool.post([&] { ++ran; });
  pool.wait_idle();
  EXPECT_EQ(ran, 100);
  EXPECT_EQ(most, at_once);
}

TEST_P(ThreadPool, TaskMayResizeThePoolItRunsOn) {
  thread_pool pool(with(3));
  std::atomic<int> ran = 0;
  for (int i = 0; i < 30; ++i) {
    pool.post([&, i] {
      pool.resize(static_cast<std::size_t>(1 + i % 4));
      ++ran;
    });
  }
  pool.wait_idle();
  EXPECT_EQ(ran, 30);
}

TEST_P(ThreadPool, RefusesImpossibleSettings) {
  EXPECT_THROW(thread_pool pool(with(1, 0)), std::invalid_argument);
  EXPECT_THROW(thread_pool pool(with(5000)), std::invalid_argument);
  auto options = with(2);
  options.cpus = {1 << 20};
  EXPECT_EQ(error_of([&] { thread_pool pool(std::move(options)); }), std::errc::invalid_argument);
  thread_pool pool(with(1));
  EXPECT_THROW(pool.resize(0), std::invalid_argument);
  EXPECT_THROW(pool.resize(5000), std::invalid_argument);
}

// ---- the end

TEST_P(ThreadPool, DestructorRunsAllThatWaits) {
  std::atomic<int> ran = 0;
  {
    thread_pool pool(with(2));
    pool.pause();
    for (int i = 0; i < 1000; ++i) {
      pool.post([&] {
        ++ran;
        pool.post([&] { ++ran; });
      });
    }
  }
  EXPECT_EQ(ran, 2000);
}

TEST_P(ThreadPool, RefusesTasksOnceDrained) {
  thread_pool pool(with(2));
  pool.post([] {});
  pool.drain();
  pool.drain();
  EXPECT_FALSE(pool.try_post([] {}));
  EXPECT_EQ(error_of([&] { pool.post([] {}); }), std::errc::operation_canceled);
  EXPECT_EQ(error_of([&] { static_cast<void>(pool.submit([] {})); }),
            std::errc::operation_canceled);
  EXPECT_EQ(error_of([&] { pool.resize(2); }), std::errc::operation_canceled);
  EXPECT_EQ(pool.metrics().finished, 1U);
}

TEST_P(ThreadPool, DrainReleasesBlockedSubmitters) {
  thread_pool pool(with(1, 1));
  busy_worker busy(pool);
  pool.post([] {});
  std::error_code refused;
  std::latch blocked(1);
  std::jthread submitter([&] {
    blocked.count_down();
    refused = error_of([&] {
      for (;;) pool.post([] {});
    });
  });
  blocked.wait();
  std::jthread drainer([&] { pool.drain(); });
  submitter.join();
  EXPECT_EQ(refused, std::errc::operation_canceled);
  busy.end();
}

TEST_P(ThreadPool, OperationsPostedAfterTheEndRunOnTheThreadThatPosts) {
  thread_pool pool(with(1));
  pool.drain();
  gyre::test::counted_operation op;
  pool.post(op);
  EXPECT_EQ(op.runs, 1);
}

TEST_P(ThreadPool, SeveralThreadsMayDrainAtOnce) {
  thread_pool pool(with(2));
  std::atomic<int> ran = 0;
  for (int i = 0; i < 1000; ++i) pool.post([&] { ++ran; });
  {
    std::jthread one([&] { pool.drain(); });
    std::jthread other([&] { pool.stop(1h); });
  }
  EXPECT_EQ(ran, 1000);
}

TEST_P(ThreadPool, TasksMayDrainThePoolTheyRunOn) {
  thread_pool pool(with(2));
  std::atomic<int> ran = 0;
  std::latch both(2);
  for (int i = 0; i < 2; ++i) {
    pool.post([&] {
      both.arrive_and_wait();
      for (int k = 0; k < 10; ++k) pool.post([&] { ++ran; });
      pool.drain();
    });
  }
  pool.wait_idle();
  pool.drain();
  EXPECT_EQ(ran, 20);
}

TEST_P(ThreadPool, TaskThatHasDrainedThePoolMaySubmitNoMore) {
  std::error_code refused;
  {
    thread_pool pool(with(1));
    pool.post([&] {
      pool.drain();
      refused = error_of([&] { pool.post([] {}); });
    });
    pool.wait_idle();
  }
  EXPECT_EQ(refused, std::errc::operation_canceled);
}

// A submitter that drain() overtakes runs its task itself; that task submits another.
TEST_P(ThreadPool, SubmissionsThatOvertakeTheEndAreRunOrRefused) {
  for (int round = 0; round < 300; ++round) {
    thread_pool pool(with(1));
    std::atomic<int> ran = 0;
    std::atomic<int> taken = 0;
    std::jthread submitter([&] {
      while (pool.try_post([&] {
        ++ran;
        pool.post([] {});
      })) {
        ++taken;
      }
    });
    std::jthread drainer([&] { pool.drain(); });
    pool.drain();
    submitter.join();
    drainer.join();
    EXPECT_EQ(ran, taken);
  }
}

TEST_P(ThreadPool, StopDropsWhatHasNotStartedInTime) {
  thread_pool pool(with(1));
  busy_worker busy(pool);
  std::atomic<int> ran = 0;
  for (int i = 0; i < 10; ++i) pool.post([&] { ++ran; });
  auto lost = pool.submit([] { return 1; });
  std::jthread ender([&] {
    EXPECT_EQ(error_of([&] { lost.get(); }), std::errc::operation_canceled);
    busy.end();
  });
  EXPECT_FALSE(pool.stop(0ns));
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(pool.metrics().dropped, 11U);
}

TEST_P(ThreadPool, StopWithoutGraceStartsNothingOnAPausedPool) {
  for (int i = 0; i < 100; ++i) {
    thread_pool pool(with(2));
    pool.pause();
    std::atomic<int> ran = 0;
    pool.post([&] { ++ran; });
    EXPECT_FALSE(pool.stop());
    EXPECT_EQ(ran, 0);
    EXPECT_EQ(pool.metrics().dropped, 1U);
  }
}

TEST_P(ThreadPool, StartsNothingThatIsSubmittedAfterThePause) {
  thread_pool pool(with(2));
  for (int i = 0; i < 200; ++i) {
    std::atomic<bool> ran = false;
    pool.post([] {});  // so that a worker may be about to look
    pool.pause();
    pool.post([&] { ran = true; });
    std::this_thread::yield();
    EXPECT_FALSE(ran);
    pool.resume();
    pool.wait_idle();
  }
}

TEST_P(ThreadPool, StopDropsNothingIfThereIsTime) {
  thread_pool pool(with(2));
  std::atomic<int> ran = 0;
  for (int i = 0; i < 100; ++i) pool.post([&] { ++ran; });
  EXPECT_TRUE(pool.stop(1h));
  EXPECT_EQ(ran, 100);
}

TEST_P(ThreadPool, TaskMayDestroyThePoolItRunsOn) {
  auto pool = std::make_unique<thread_pool>(with(2));
  std::atomic<int> ran = 0;
  std::promise<void> gone;
  auto destroyed = gone.get_future();
  for (int i = 0; i < 100; ++i) pool->post([&] { ++ran; });
  std::binary_semaphore posted(0);  // the pool must outlive the call that posts
  pool->post([&] {
    posted.acquire();
    pool.reset();
    gone.set_value();
  });
  posted.release();
  destroyed.get();
  EXPECT_EQ(ran, 100);
}

TEST_P(ThreadPool, FuturesOutliveThePool) {
  gyre::future<int> answer;
  {
    thread_pool pool(with(1));
    answer = pool.submit([] { return 42; });
  }
  EXPECT_EQ(answer.get(), 42);
}

// ---- delay

TEST_P(ThreadPool, StartsADelayedTaskOnceItsTimeHasCome) {
  thread_pool pool(with(1));
  const auto begin = std::chrono::steady_clock::now();
  std::promise<std::chrono::steady_clock::time_point> started;
  pool.post_after(5ms, [&] { started.set_value(std::chrono::steady_clock::now()); });
  EXPECT_GE(started.get_future().get(), begin + 5ms);
  std::promise<bool> at_once;
  pool.post_after(-1h, [&] { at_once.set_value(pool.running_here()); });
  EXPECT_TRUE(at_once.get_future().get());
}

TEST_P(ThreadPool, DelayedTaskTakesItsSlotAtOnce) {
  thread_pool pool(with(1, 1, when_full::reject));
  pool.post_after(1h, [] {});
  EXPECT_EQ(pool.metrics().delayed, 1U);
  EXPECT_FALSE(pool.try_post([] {}));
  EXPECT_EQ(error_of([&] { pool.post_after(1h, [] {}); }),
            std::errc::resource_unavailable_try_again);
}

TEST_P(ThreadPool, ExceptionOfADelayedTaskGoesToTheHandler) {
  auto options = with(1);
  std::promise<void> caught;
  options.on_exception = [&](const std::exception_ptr&) { caught.set_value(); };
  thread_pool pool(std::move(options));
  pool.post_after(0ns, [] { throw std::runtime_error("no"); });
  caught.get_future().get();
}

TEST_P(ThreadPool, DrainDropsDelayedTasksThatAreNotDue) {
  thread_pool pool(with(1));
  auto owned = std::make_shared<int>();
  const std::weak_ptr<int> watched = owned;
  pool.post_after(1h, [kept = std::move(owned)] {});
  pool.drain();
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(pool.metrics().dropped, 1U);
  EXPECT_EQ(error_of([&] { pool.post_after(1h, [] {}); }), std::errc::operation_canceled);
}

TEST_P(ThreadPool, CoroutinesSleepThere) {
  thread_pool pool(with(2));
  gyre::sync_wait(gyre::on(pool, []() -> task<> { co_await gyre::sleep_for(1ms); }()));
}

// ---- set-up

TEST_P(ThreadPool, WorkersAreNamedPinnedAndAnnounced) {
  std::mutex mutex;
  std::multiset<std::size_t> started;
  std::multiset<std::size_t> stopped;
  std::set<std::string> names;
  {
    auto options = with(2);
    options.name = "crunch";
    options.cpus = {0};
    options.on_start = [&](std::size_t worker) {
      std::array<char, 16> name{};
      ::pthread_getname_np(::pthread_self(), name.data(), name.size());
      EXPECT_EQ(::sched_getcpu(), 0);
      const std::lock_guard lock(mutex);
      started.insert(worker);
      names.insert(name.data());
    };
    options.on_stop = [&](std::size_t worker) {
      const std::lock_guard lock(mutex);
      stopped.insert(worker);
    };
    const thread_pool pool(std::move(options));
  }
  EXPECT_THAT(started, ElementsAre(0, 1));
  EXPECT_THAT(stopped, ElementsAre(0, 1));
  EXPECT_THAT(names, ElementsAre("crunch-0", "crunch-1"));
}

TEST_P(ThreadPool, HasAWorkerPerUsableCpuByDefault) {
  thread_pool pool({.scheduler = GetParam()});
  EXPECT_EQ(pool.workers(), gyre::available_parallelism());
}

TEST_P(ThreadPool, TimesTasksIfAsked) {
  auto options = with(1);
  options.record_times = true;
  thread_pool pool(std::move(options));
  pool.pause();
  for (int i = 0; i < 100; ++i) pool.post([] {});
  EXPECT_FALSE(pool.wait_idle_for(2ms));
  pool.resume();
  pool.wait_idle();
  const auto counted = pool.metrics();
  EXPECT_EQ(counted.queue_wait.count(), 100U);
  EXPECT_EQ(counted.run_time.count(), 100U);
  EXPECT_GE(counted.queue_wait.quantile(0), 1ms);
}

// ---- coroutines

TEST_P(ThreadPool, CoroutinesGoOnThere) {
  thread_pool pool(with(2));
  gyre::sync_wait([](thread_pool& there) -> task<> {
    EXPECT_FALSE(there.running_here());
    co_await gyre::resume_on(there);
    EXPECT_TRUE(there.running_here());
    for (int i = 0; i < 1000; ++i) co_await gyre::yield();
    EXPECT_TRUE(there.running_here());
  }(pool));
}

TEST_P(ThreadPool, CoroutinesThatYieldTakeTurns) {
  thread_pool pool(with(1));
  std::atomic<bool> other_ran = false;
  auto patient = [](thread_pool& there, std::atomic<bool>& done) -> task<> {
    co_await gyre::resume_on(there);
    while (!done) co_await gyre::yield();
  };
  auto first = patient(pool, other_ran);
  std::jthread submitter([&] { pool.post([&] { other_ran = true; }); });
  gyre::sync_wait(std::move(first));
  EXPECT_TRUE(other_ran);
}

TEST_P(ThreadPool, CoroutinesAwaitSubmittedTasks) {
  thread_pool pool(with(1));
  const int answer = gyre::sync_wait([](thread_pool& there) -> task<int> {
    auto submitted = there.submit([] { return 41; });
    const int value = co_await std::move(submitted);
    co_return value + 1;
  }(pool));
  EXPECT_EQ(answer, 42);
}

// ---- forking

// In a pool of this capacity a thread reserves two slots at a time, and holds one after one task.
TEST(StealingPool, WaitersAreGivenTheSlotsThatThreadsHeldAtTheirEnd) {
  thread_pool pool({.workers = 1, .capacity = 512});
  pool.pause();
  std::latch posted(2);
  std::latch ended(1);
  const auto hold = [&] {
    pool.post([] {});
    posted.count_down();
    ended.wait();
  };
  std::thread holder(hold);
  std::thread other_holder(hold);
  posted.wait();
  while (pool.try_post([] {})) continue;

  gyre::testing::manual_executor executor;
  bool submitted = false;
  const auto submit = [&]() -> task<> {
    auto posting = pool.async_post([] {});
    co_await std::move(posting);
    submitted = true;
  };
  gyre::spawn(executor, submit());
  executor.run_all();
  EXPECT_FALSE(submitted);
  std::thread blocked([&] { pool.post([] {}); });
  ended.count_down();
  holder.join();
  other_holder.join();
  executor.run_all();
  EXPECT_TRUE(submitted) << "the coroutine is the first in line";
  blocked.join();
  pool.resume();
  pool.wait_idle();
  executor.run_all();
}

TEST(StealingPool, CoroutineThatAnEndingThreadResumesKeepsItsSlot) {
  thread_pool pool({.workers = 1, .capacity = 512});
  pool.pause();
  std::latch posted(1);
  std::latch ended(1);
  std::thread holder([&] {
    pool.post([] {});
    posted.count_down();
    ended.wait();
  });
  posted.wait();
  while (pool.try_post([] {})) continue;

  int submitted = 0;
  int refused = 0;
  const auto submit = [&]() -> task<> {
    auto posting = pool.async_post([] {});
    try {
      co_await std::move(posting);
      ++submitted;
    } catch (const std::system_error&) {
      ++refused;
    }
  };
  std::vector<std::future<void>> submissions;
  for (int i = 0; i < 2; ++i) {
    submissions.push_back(gyre::spawn_future(gyre::inline_executor(), submit()));
  }
  ended.count_down();
  holder.join();
  EXPECT_EQ(submitted, 1) << "the holder had one slot in reserve";
  EXPECT_EQ(refused, 0);
  pool.resume();
  for (std::future<void>& each : submissions) each.get();
  EXPECT_EQ(refused, 0);
}

TEST(StealingPool, OffersToOthersOnlyWhatIsNotTakenBack) {
  thread_pool pool(1);
  gyre::test::counted_operation taken_back;
  gyre::test::counted_operation given;
  EXPECT_EQ(pool.fork_queue_here(), nullptr);
  pool.post([&] {
    gyre::fork_queue& queue = *pool.fork_queue_here();
    EXPECT_TRUE(queue.push(taken_back));
    EXPECT_TRUE(queue.take_back(taken_back));
    EXPECT_FALSE(queue.take_back(taken_back));
    EXPECT_TRUE(queue.push(given));
    EXPECT_TRUE(queue.push(taken_back));
    EXPECT_FALSE(queue.take_back(given));
    EXPECT_TRUE(queue.take_back(taken_back));
  });
  pool.wait_idle();
  EXPECT_EQ(taken_back.runs, 0);
  EXPECT_EQ(given.runs, 1);
}

TEST(StealingPool, IdleWorkerTakesWhatIsOffered) {
  thread_pool pool(2);
  gyre::test::counted_operation offered;
  pool.post([&] {
    ASSERT_TRUE(pool.fork_queue_here()->push(offered));
    while (offered.runs == 0) std::this_thread::yield();  // on the other worker
  });
  pool.wait_idle();
  EXPECT_EQ(offered.runs, 1);
}

TEST(StealingPool, WorkOfABusyWorkerIsTakenByAnIdleOne) {
  thread_pool pool(2);
  std::atomic<int> ran = 0;
  pool.post([&] {
    for (int i = 0; i < 100; ++i) pool.post([&] { ++ran; });
    while (ran < 100) std::this_thread::yield();
  });
  pool.wait_idle();
  EXPECT_EQ(ran, 100);
  EXPECT_GT(pool.metrics().steals, 0U);
}

}  // namespace
}  // namespace thread_pool_test

// SPDX-License-Identifier: Apache-2.0
// Tests of a pool's submissions. In small segments tasks often reach the end, where segments are
// linked and reused.
#include <gyre/pool/detail/submissions.hpp>

#include <gyre/exec/inbox/inbox_test_support.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/task.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <new>
#include <semaphore>
#include <stdexcept>
#include <thread>
#include <vector>

namespace submissions_test {
namespace {

using namespace gyre::inbox::suite;
using gyre::steady_time;
using gyre::detail::admission;
using gyre::detail::admission_result;
using gyre::detail::basic_submissions;
using gyre::detail::submissions;
using gyre::inbox::batch;

constexpr steady_time for_ever = steady_time::max();
constexpr steady_time long_ago{};

template <class Submissions>
class Submission : public testing::Test {
 protected:
  // A worker's turn, which releases the slots of the tasks that it has run.
  std::size_t run_some(std::size_t most = no_limit) {
    batch some(most);
    more = waiting.run_some(some);
    room.release(some.ran());
    return some.ran();
  }
  std::size_t run_all() {
    std::size_t ran = 0;
    while (waiting.ready()) ran += run_some();
    return ran;
  }

  // Pushes like a pool's submitter that blocks.
  template <class F>
  admission_result push_until(F&& callable, steady_time deadline) {
    if (waiting.try_push(std::forward<F>(callable))) return admission_result::granted;
    gyre::semaphore_permit slot;
    const admission_result result = waiting.acquire_until(deadline, slot);
    if (slot.forget() != 0) waiting.push_built([&]() -> F&& { return std::forward<F>(callable); });
    return result;
  }

  const std::shared_ptr<admission> gate = std::make_shared<admission>(512);
  admission& room = *gate;
  Submissions waiting{gate};
  bool more = false;
};

using sizes = testing::Types<submissions, basic_submissions<3>>;
TYPED_TEST_SUITE(Submission, sizes);

TYPED_TEST(Submission, RunsEachThreadsTasksInItsOrder) {
  std::vector<int> seen;
  for (int i = 0; i < 300; ++i)
    EXPECT_TRUE(this->waiting.try_push([&seen, i] { seen.push_back(i); }));
  EXPECT_EQ(this->waiting.pending(), 300U);
  EXPECT_TRUE(this->waiting.ready());
  EXPECT_EQ(this->run_some(), 256U) << "at most so many at a time";
  EXPECT_TRUE(this->more);
  EXPECT_EQ(this->run_some(40), 40U);
  EXPECT_TRUE(this->more);
  EXPECT_EQ(this->run_some(), 4U);
  EXPECT_FALSE(this->more);
  EXPECT_EQ(this->run_some(), 0U);
  EXPECT_FALSE(this->waiting.ready());
  EXPECT_EQ(seen, numbers_up_to(300));
  EXPECT_EQ(this->waiting.pending(), 0U);
  EXPECT_EQ(this->waiting.pushed(), 300U);
}

TYPED_TEST(Submission, RefusesACallableWithoutASlotAndLeavesItUntouched) {
  for (int i = 0; i < 512; ++i) ASSERT_TRUE(this->waiting.try_push([] {})) << i;
  auto kept = std::make_unique<int>(1);
  auto task = [kept = std::move(kept)] { EXPECT_EQ(*kept, 1); };
  EXPECT_FALSE(this->waiting.try_push(std::move(task)));
  int made = 0;
  EXPECT_FALSE(this->waiting.try_push_built([&] {
    ++made;
    return [] {};
  }));
  EXPECT_EQ(made, 0) << "nothing is made in vain";
  EXPECT_EQ(this->push_until(std::move(task), long_ago), admission_result::timed_out);
  EXPECT_EQ(this->run_some(1), 1U);
  EXPECT_TRUE(this->waiting.try_push(std::move(task))) << "a started task releases its slot";
  EXPECT_FALSE(this->waiting.try_push([] {}));
  EXPECT_EQ(this->run_all(), 512U);
}

TYPED_TEST(Submission, ACallableThatNeedsNoSlotIsNeverRefused) {
  while (this->waiting.try_push([] {})) {
  }
  int ran = 0;
  this->waiting.push([&] { ++ran; });
  EXPECT_EQ(this->waiting.pending(), 513U);
  while (this->waiting.ready()) {
    batch some(no_limit);
    this->waiting.run_some(some);
  }
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(this->room.free_slots(), 0U);
}

TYPED_TEST(Submission, ASlotIsFreeAgainWhenTheTaskCannotBeStored) {
  for (int i = 0; i < 1000; ++i) {
    const uncopyable_task task;
    EXPECT_THROW(static_cast<void>(this->waiting.try_push(task)), std::runtime_error);
    EXPECT_THROW(static_cast<void>(this->waiting.try_push_built(
                     []() -> uncopyable_task { throw std::bad_alloc(); })),
                 std::bad_alloc);
  }
  for (int i = 0; i < 512; ++i) EXPECT_TRUE(this->waiting.try_push([] {})) << i;
  EXPECT_EQ(this->run_all(), 512U);
}

TYPED_TEST(Submission, ATaskMayBePushedWhileAnotherIsBeingMade) {
  std::vector<int> seen;
  EXPECT_TRUE(this->waiting.try_push_built([&] {
    EXPECT_TRUE(this->waiting.try_push([&] { seen.push_back(0); }));
    EXPECT_TRUE(this->waiting.try_push([&] { seen.push_back(1); }));
    return [&] { seen.push_back(2); };
  }));
  EXPECT_EQ(this->run_all(), 3U);
  EXPECT_EQ(seen, numbers_up_to(3));
  EXPECT_GE(this->room.free_slots(), 511U);
}

TYPED_TEST(Submission, ATasksExceptionPassesAndTheNextOneIsRunLater) {
  int ran = 0;
  EXPECT_TRUE(this->waiting.try_push([] { throw std::runtime_error("passes"); }));
  EXPECT_TRUE(this->waiting.try_push([&] { ++ran; }));
  batch some(no_limit);
  EXPECT_THROW(this->waiting.run_some(some), std::runtime_error);
  EXPECT_EQ(some.ran(), 1U);
  EXPECT_EQ(this->waiting.pending(), 1U);
  EXPECT_EQ(this->run_some(), 1U);
  EXPECT_EQ(ran, 1);
}

TYPED_TEST(Submission, AWorkerLeavesOtherProducersToOtherWorkers) {
  std::size_t ran_meanwhile = 0;
  EXPECT_TRUE(this->waiting.try_push(
      [&] { std::thread([&] { ran_meanwhile = this->run_all(); }).join(); }));
  std::thread([&] { EXPECT_TRUE(this->waiting.try_push([] {})); }).join();
  EXPECT_EQ(this->run_some(), 1U);
  EXPECT_EQ(ran_meanwhile, 1U);
  EXPECT_FALSE(this->more);
}

TYPED_TEST(Submission, AShardBeingRunIsNotInTheWayOfTheOthers) {
  bool seen_by_another = true;
  EXPECT_TRUE(this->waiting.try_push(
      [&] { std::thread([&] { seen_by_another = this->waiting.ready(); }).join(); }));
  EXPECT_TRUE(this->waiting.try_push([] {}));
  EXPECT_EQ(this->run_some(1), 1U);
  EXPECT_FALSE(seen_by_another) << "what is left there is for the worker that has the shard";
  EXPECT_TRUE(this->more) << "which hears of it";
  EXPECT_EQ(this->run_all(), 1U);
}

TYPED_TEST(Submission, PendingTasksAreDestroyedAtTheEnd) {
  fates told;
  {
    TypeParam short_lived(std::make_shared<admission>(100));
    EXPECT_TRUE(short_lived.try_push(sized_task<24>(told)));
    EXPECT_TRUE(short_lived.try_push(sized_task<100>(told)));
    std::thread([&] { EXPECT_TRUE(short_lived.try_push(sized_task<24>(told))); }).join();
  }
  EXPECT_EQ(told.run, 0);
  EXPECT_EQ(told.destroyed, 3);
}

TYPED_TEST(Submission, AThreadThatEndsReleasesTheSlotsThatItHeld) {
  // While many slots are free, each thread reserves two and uses one.
  for (int i = 0; i < 256; ++i) {
    std::thread([&] { ASSERT_TRUE(this->waiting.try_push([] {})); }).join();
  }
  EXPECT_EQ(this->room.free_slots(), 256U);
  for (int i = 0; i < 256; ++i) ASSERT_TRUE(this->waiting.try_push([] {})) << i;
  EXPECT_FALSE(this->waiting.try_push([] {}));
  EXPECT_EQ(this->run_all(), 512U);
  EXPECT_EQ(this->room.free_slots(), 512U);
}

TYPED_TEST(Submission, AThreadMayOutliveTheQueueWhoseSlotsItHolds) {
  std::latch pushed(1);
  std::latch ended(1);
  std::thread holder;
  {
    TypeParam short_lived(this->gate);
    holder = std::thread([&] {
      EXPECT_TRUE(short_lived.try_push([] {}));
      pushed.count_down();
      ended.wait();
    });
    pushed.wait();
  }
  EXPECT_EQ(this->room.free_slots(), 510U);
  ended.count_down();
  holder.join();
  EXPECT_EQ(this->room.free_slots(), 511U) << "all but that of the task, which was destroyed";
}

TYPED_TEST(Submission, AWaitingThreadIsGivenTheSlotsOfAThreadThatEnds) {
  std::counting_semaphore<> full(0);
  std::counting_semaphore<> end(0);
  std::thread hoarder([&] {
    EXPECT_TRUE(this->waiting.try_push([] {}));
    full.release();
    end.acquire();
  });
  full.acquire();
  while (this->waiting.try_push([] {})) {
  }
  std::thread blocked(
      [&] { EXPECT_EQ(this->push_until([] {}, for_ever), admission_result::granted); });
  end.release();
  hoarder.join();
  blocked.join();
  EXPECT_EQ(this->run_all(), 512U);
}

TYPED_TEST(Submission, ClosingTheSlotsEndsTheWait) {
  while (this->waiting.try_push([] {})) {
  }
  std::thread blocked(
      [&] { EXPECT_EQ(this->push_until([] {}, for_ever), admission_result::closed); });
  this->room.close();
  blocked.join();
  gyre::semaphore_permit slot;
  EXPECT_EQ(this->waiting.acquire_until(for_ever, slot), admission_result::closed);
  EXPECT_EQ(this->run_all(), 512U);
}

// Pushes at the end of its thread, from the destructor of a thread-local.
template <class Submissions>
struct last_push {
  Submissions* waiting = nullptr;
  ~last_push() {
    if (waiting == nullptr) return;
    EXPECT_TRUE(waiting->try_push([] {}));
    gyre::semaphore_permit slot;
    EXPECT_EQ(waiting->acquire_until(long_ago, slot), admission_result::granted);
    EXPECT_EQ(slot.forget(), 1U);
    waiting->push_built([] { return [] {}; });
  }
};

template <class Submissions>
last_push<Submissions>& last_push_of_this_thread() {
  thread_local last_push<Submissions> pushes;
  return pushes;
}

TYPED_TEST(Submission, AThreadMayPushWhileItsThreadLocalsAreDestroyed) {
  for (int i = 0; i < 20; ++i) {
    std::thread([&] {
      // Made before the thread's list of shards, so destroyed after it.
      last_push_of_this_thread<TypeParam>().waiting = &this->waiting;
      EXPECT_TRUE(this->waiting.try_push([] {}));
    }).join();
  }
  EXPECT_EQ(this->run_all(), 60U);
  EXPECT_EQ(this->room.free_slots(), 512U);
}

// Runs a function at the end of its thread, from the destructor of a thread-local.
struct last_call {
  std::function<void()> function;
  ~last_call() {
    if (function) function();
  }
};

last_call& last_call_of_this_thread() {
  thread_local last_call call;
  return call;
}

TYPED_TEST(Submission, AThreadThatIsEndingKeepsTheSlotThatItWaitedFor) {
  while (this->waiting.try_push([] {})) {
  }
  std::atomic<bool> is_pushed = false;
  std::thread ending([&] {
    // Made before the thread's list of shards, so destroyed after it.
    last_call_of_this_thread().function = [&] {
      EXPECT_EQ(this->push_until([] {}, for_ever), admission_result::granted);
      is_pushed = true;
    };
    EXPECT_FALSE(this->waiting.try_push([] {}));
  });
  while (!this->room.slots().has_waiters()) std::this_thread::yield();
  std::atomic<bool> is_overtaken = false;
  const auto wait_next = [&]() -> gyre::task<> {
    const auto slot = co_await this->room.slots().permit();
    is_overtaken = true;
  };
  auto next = gyre::spawn_future(gyre::inline_executor(), wait_next());
  EXPECT_EQ(this->run_some(1), 1U);
  while (!is_pushed && !is_overtaken) std::this_thread::yield();
  EXPECT_FALSE(is_overtaken);
  EXPECT_EQ(this->run_all(), is_pushed ? 512U : 511U);
  ending.join();
  next.get();
}

}  // namespace
}  // namespace submissions_test

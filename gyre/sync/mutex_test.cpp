// SPDX-License-Identifier: Apache-2.0
// Tests of mutex beyond what wait_test.cpp tests of all primitives.
#include <gyre/sync/mutex.hpp>

#include <gyre/sync/latch.hpp>
#include <gyre/sync/sync_test_support.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/shielded.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <tests/support/sanitizers.hpp>
#include <tests/support/thread_executor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <mutex>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace mutex_test {
namespace {

using gyre::inplace_stop_source;
using gyre::mutex;
using gyre::sync_wait;
using gyre::task;
using gyre::test::foreign;
using gyre::test::started;
using gyre::test::thread_executor;
using gyre::test::unless_sanitized;
using gyre::testing::manual_executor;
using ::testing::ElementsAre;

static_assert(sizeof(mutex) == 24);
static_assert(sizeof(mutex::guard) == sizeof(void*));
static_assert(!std::is_move_constructible_v<mutex>);
static_assert(!std::is_copy_constructible_v<mutex::guard>);
static_assert(std::is_nothrow_move_constructible_v<mutex::guard>);

constinit mutex static_mutex;  // needs no start-up code

TEST(Mutex, LocksAtOnceWhenItIsFree) {
  auto locks = [](mutex& free) -> task<bool> {
    const mutex::guard guard = co_await free.lock();
    EXPECT_TRUE(guard.owns_lock());
    EXPECT_EQ(guard.mutex(), &free);
    co_return free.try_lock();
  };
  EXPECT_FALSE(sync_wait(locks(static_mutex))) << "locked while the guard lives";
  EXPECT_TRUE(static_mutex.try_lock()) << "and no longer";
  static_mutex.unlock();
}

TEST(Mutex, GuardCanBeMovedUnlockedAndReleased) {
  mutex one;
  mutex other;
  mutex::guard guard(one, std::try_to_lock);
  ASSERT_TRUE(guard);
  EXPECT_FALSE(mutex::guard(one, std::try_to_lock));
  mutex::guard moved = std::move(guard);
  EXPECT_TRUE(moved);
  EXPECT_FALSE(guard.owns_lock());  // NOLINT(bugprone-use-after-move): it is empty
  moved = mutex::guard(other, std::try_to_lock);
  EXPECT_TRUE(one.try_lock()) << "assignment unlocks what was held";
  one.unlock();
  EXPECT_EQ(moved.release(), &other);
  EXPECT_FALSE(other.try_lock()) << "released, not unlocked";
  mutex::guard adopted(other, std::adopt_lock);
  adopted.unlock();
  EXPECT_FALSE(adopted);
  EXPECT_TRUE(other.try_lock());
  other.unlock();
}

TEST(Mutex, GuardUnlocksWhenAnExceptionPasses) {
  mutex locked;
  auto fails = [](mutex& on) -> task<> {
    const mutex::guard guard = co_await on.lock();
    throw 1;
  };
  EXPECT_THROW(sync_wait(fails(locked)), int);
  EXPECT_TRUE(locked.try_lock());
  locked.unlock();
}

// Records its number while it holds the mutex, across a wait.
task<> note(mutex& on, std::vector<int>& order, int number) {
  const mutex::guard guard = co_await on.lock();
  co_await gyre::yield();
  order.push_back(number);
}

TEST(Mutex, IsHandedOverInTheOrderOfComing) {
  manual_executor here;
  mutex contended;
  std::vector<int> order;
  for (const int number : {1, 2, 3, 4}) gyre::spawn(here, note(contended, order, number));
  here.run_all();
  EXPECT_THAT(order, ElementsAre(1, 2, 3, 4));
}

TEST(Mutex, CannotBeTakenFromThoseWhoWait) {
  manual_executor here;
  mutex contended;
  std::vector<int> order;
  ASSERT_TRUE(contended.try_lock());
  started waiting(here, note(contended, order, 1));
  contended.unlock();
  EXPECT_FALSE(contended.try_lock()) << "it belongs to the one that was woken";
  here.run_all();
  EXPECT_THAT(order, ElementsAre(1));
}

TEST(Mutex, CancelledWaiterIsPassedOver) {
  manual_executor here;
  mutex contended;
  std::vector<int> order;
  inplace_stop_source source;
  ASSERT_TRUE(contended.try_lock());
  auto gives_up = [&]() -> task<> {
    try {
      static_cast<void>(co_await contended.lock());
    } catch (const gyre::operation_cancelled&) {
      order.push_back(2);
    }
  };
  started first(here, note(contended, order, 1));
  started second(here, gives_up(), source.get_token());
  started third(here, note(contended, order, 3));
  source.request_stop();
  here.run_all();
  EXPECT_THAT(order, ElementsAre(2));
  contended.unlock();
  here.run_all();
  EXPECT_THAT(order, ElementsAre(2, 1, 3));
}

TEST(Mutex, DestroyedWaiterIsPassedOver) {
  manual_executor here;
  mutex contended;
  std::vector<int> order;
  ASSERT_TRUE(contended.try_lock());
  started first(here, note(contended, order, 1));
  started second(here, note(contended, order, 2));
  started third(here, note(contended, order, 3));
  first.drop();
  third.drop();
  contended.unlock();
  here.run_all();
  EXPECT_THAT(order, ElementsAre(2));
  EXPECT_TRUE(contended.try_lock());
  contended.unlock();
}

TEST(Mutex, ExcludesCoroutinesOfSeveralThreads) {
  const int times = unless_sanitized(100'000);
  mutex contended;
  int count = 0;
  auto counts = [](mutex& on, int& plain, int rounds) -> task<> {
    for (int i = 0; i < rounds; ++i) {
      const mutex::guard guard = co_await on.lock();
      ++plain;
    }
  };
  {
    thread_executor threads[3];
    std::vector<std::future<void>> ends;
    for (auto& thread : threads) {
      for (int i = 0; i < 2; ++i) {
        ends.push_back(gyre::spawn_future(thread, counts(contended, count, times)));
      }
    }
    for (auto& end : ends) end.get();
  }
  EXPECT_EQ(count, 6 * times);
}

TEST(Mutex, GoesOnWithStopsFromEverywhere) {
  const int rounds = unless_sanitized(5'000);
  mutex contended;
  int count = 0;
  int counted = 0;
  auto counts = [&](gyre::inplace_stop_token, int times) -> task<int> {
    int passed = 0;
    for (int i = 0; i < times; ++i) {
      try {
        mutex::guard guard = co_await contended.lock();
        ++count;
        ++passed;
      } catch (const gyre::operation_cancelled&) {  // goes on
      }
    }
    co_return passed;
  };
  thread_executor threads[3];
  for (int i = 0; i < rounds; ++i) {
    inplace_stop_source source;
    std::vector<std::future<int>> ends;
    for (auto& thread : threads) {
      ends.push_back(
          gyre::spawn_future(thread, counts(source.get_token(), 10), source.get_token()));
    }
    source.request_stop();
    for (auto& end : ends) counted += end.get();
  }
  EXPECT_EQ(count, counted);
  EXPECT_TRUE(contended.try_lock()) << "nobody kept it";
  contended.unlock();
}

// If each coroutine resumed within the other's unlock(), the stack would overflow.
TEST(Mutex, TakingTurnsNeedsNoStack) {
  const int turns = unless_sanitized(1'000'000);
  mutex contended;
  int taken = 0;
  auto takes_turns = [](mutex& on, int& count, int times) -> task<> {
    mutex::guard guard = co_await on.lock();
    while (times-- > 0) {
      ++count;
      mutex::lock_operation again = on.lock();
      guard.unlock();
      guard = co_await std::move(again);
    }
  };
  auto both = [&]() -> task<> {
    gyre::executor& here = co_await gyre::current_executor();
    EXPECT_TRUE(contended.try_lock());
    gyre::latch ended(2);
    auto one = [&]() -> task<> {
      co_await takes_turns(contended, taken, turns / 2);
      ended.count_down();
    };
    gyre::spawn(here, one());
    gyre::spawn(here, one());
    co_await gyre::yield();
    contended.unlock();
    co_await ended.wait();
  };
  sync_wait(both());
  EXPECT_EQ(taken, turns / 2 * 2);
}

// Each coroutine is woken by its predecessor, without an executor in between.
TEST(Mutex, ChainOfForeignCoroutinesNeedsNoStack) {
  const int length = unless_sanitized(1'000'000);
  mutex contended;
  int passed = 0;
  auto waits = [](mutex& on, int& count) -> foreign {
    const mutex::guard guard = co_await on.lock();
    ++count;
  };
  ASSERT_TRUE(contended.try_lock());
  for (int i = 0; i < length; ++i) waits(contended, passed);
  EXPECT_EQ(passed, 0);
  contended.unlock();
  EXPECT_EQ(passed, length);
}

TEST(Mutex, MayBeDestroyedByItsLastUser) {
  const int rounds = unless_sanitized(20'000);
  thread_executor one;
  thread_executor other;
  auto uses = [](std::shared_ptr<mutex> shared, mutex& on) -> task<> {
    mutex::guard guard = co_await on.lock();
    guard.unlock();
    shared.reset();
  };
  for (int i = 0; i < rounds; ++i) {
    auto shared = std::make_shared<mutex>();
    mutex& on = *shared;
    auto first = gyre::spawn_future(one, uses(shared, on));
    auto second = gyre::spawn_future(other, uses(std::move(shared), on));
    first.get();
    second.get();
  }
}

task<> locks_in_turn(mutex& first, mutex& second) {
  const mutex::guard outer = co_await first.lock();
  co_await gyre::yield();
  const mutex::guard inner = co_await second.lock();
}

// The destruction of one coroutine would wake the other, as each holds the lock that the other
// awaits.
TEST(Mutex, LockedByTwoInOppositeOrderIsReportedAndUnlocked) {
  if (!gyre::detail::checks_deadlocks || gyre::test::thread_sanitizer_is_on) {
    GTEST_SKIP() << "this build waits for ever";
  }
  mutex one;
  mutex other;
  try {
    sync_wait(gyre::when_all(locks_in_turn(one, other), locks_in_turn(other, one)));
    FAIL() << "returned";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::resource_deadlock_would_occur);
    EXPECT_THAT(error.what(), testing::HasSubstr("locks_in_turn"));
  }
  EXPECT_TRUE(one.try_lock());
  EXPECT_TRUE(other.try_lock());
  one.unlock();
  other.unlock();
}

// Both coroutines ignore the stop, so one is destroyed; the other then gets both locks.
TEST(Mutex, LockedByTwoInOppositeOrderIsUnlockedEvenIfTheyAreShielded) {
  if (!gyre::detail::checks_deadlocks || gyre::test::thread_sanitizer_is_on) {
    GTEST_SKIP() << "this build waits for ever";
  }
  mutex one;
  mutex other;
  EXPECT_THROW(sync_wait(gyre::when_all(gyre::shielded(locks_in_turn(one, other)),
                                        gyre::shielded(locks_in_turn(other, one)))),
               std::system_error);
  EXPECT_TRUE(one.try_lock());
  EXPECT_TRUE(other.try_lock());
  one.unlock();
  other.unlock();
}

#if !defined(NDEBUG) && defined(GTEST_HAS_DEATH_TEST)
TEST(MutexDeathTest, DestroyedWhileItIsLockedSaysSo) {
  auto forgets = [] {
    mutex locked;
    static_cast<void>(locked.try_lock());
  };
  EXPECT_DEATH(forgets(), "destroyed in use");
}

TEST(MutexDeathTest, UnlockedWithoutALockSaysSo) {
  mutex free;
  EXPECT_DEATH(free.unlock(), "not locked");
}
#endif

}  // namespace
}  // namespace mutex_test

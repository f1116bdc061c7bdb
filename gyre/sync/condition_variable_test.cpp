// SPDX-License-Identifier: Apache-2.0
// Tests of waiting for a condition that a mutex protects.
#include <gyre/sync/condition_variable.hpp>

#include <gyre/sync/sync_test_support.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <tests/support/thread_executor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <future>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

namespace condition_variable_test {
namespace {

using gyre::condition_variable;
using gyre::inplace_stop_source;
using gyre::mutex;
using gyre::task;
using gyre::test::started;
using gyre::test::thread_executor;
using gyre::test::unless_sanitized;
using gyre::testing::manual_executor;
using ::testing::ElementsAre;

static_assert(sizeof(condition_variable) == 24);
constinit condition_variable static_condition;  // needs no start-up code

class ConditionVariable : public testing::Test {
 protected:
  task<> waits(int number) {
    mutex::guard guard = co_await lock.lock();
    co_await changed.wait(guard);
    EXPECT_TRUE(guard.owns_lock());
    order.push_back(number);
  }
  bool is_free() {
    const mutex::guard guard(lock, std::try_to_lock);
    return guard.owns_lock();
  }

  manual_executor here;
  mutex lock;
  condition_variable changed;
  std::vector<int> order;
};

TEST_F(ConditionVariable, WaitingGivesTheMutexUp) {
  started waiting(here, waits(1));
  EXPECT_TRUE(is_free());
  changed.notify_one();
  EXPECT_FALSE(is_free()) << "it belongs to the one that is woken";
  here.run_all();
  EXPECT_THAT(order, ElementsAre(1));
  EXPECT_TRUE(is_free());
}

TEST_F(ConditionVariable, NotifyOneWakesWhoHasWaitedLongest) {
  started first(here, waits(1));
  started second(here, waits(2));
  changed.notify_one();
  here.run_all();
  EXPECT_THAT(order, ElementsAre(1));
  changed.notify_one();
  here.run_all();
  EXPECT_THAT(order, ElementsAre(1, 2));
}

TEST_F(ConditionVariable, NotificationIsNotKeptForLater) {
  changed.notify_one();
  changed.notify_all();
  started waiting(here, waits(1));
  here.run_all();
  EXPECT_THAT(order, ElementsAre());
}

TEST_F(ConditionVariable, NotifyAllLetsThemGoOnOneAfterTheOther) {
  started first(here, waits(1));
  started second(here, waits(2));
  started third(here, waits(3));
  changed.notify_all();
  EXPECT_EQ(here.pending(), 1U) << "only the one who has the mutex runs";
  here.run_all();
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST_F(ConditionVariable, NotifiedWaiterWaitsForTheMutex) {
  started waiting(here, waits(1));
  {
    mutex::guard guard(lock, std::try_to_lock);
    changed.notify_one();
    EXPECT_EQ(here.run_all(), 0U);
  }
  here.run_all();
  EXPECT_THAT(order, ElementsAre(1));
}

TEST_F(ConditionVariable, WaitsUntilThePredicateHolds) {
  bool ready = false;
  int asked = 0;
  auto waits_until = [&]() -> task<> {
    mutex::guard guard = co_await lock.lock();
    auto holds = [&] {
      ++asked;
      EXPECT_FALSE(lock.try_lock()) << "the mutex is held";
      return ready;
    };
    co_await changed.wait(guard, holds);
    order.push_back(asked);
  };
  started waiting(here, waits_until());
  changed.notify_one();
  here.run_all();
  ready = true;
  changed.notify_all();
  here.run_all();
  EXPECT_THAT(order, ElementsAre(3));
}

TEST_F(ConditionVariable, PredicateThatThrowsLeavesTheMutexLocked) {
  auto throws = [&]() -> task<bool> {
    mutex::guard guard = co_await lock.lock();
    auto fails = []() -> bool { throw std::runtime_error("predicate"); };
    try {
      co_await changed.wait(guard, fails);
    } catch (const std::runtime_error&) {
      co_return guard.owns_lock();
    }
    co_return false;
  };
  EXPECT_TRUE(gyre::sync_wait(throws()));
  EXPECT_TRUE(is_free());
}

TEST_F(ConditionVariable, CancelledWaitHasTheMutexAgain) {
  inplace_stop_source source;
  auto gives_up = [&]() -> task<> {
    mutex::guard guard = co_await lock.lock();
    try {
      static_cast<void>(co_await gyre::as_expected(changed.wait(guard)));
    } catch (const gyre::operation_cancelled&) {
      EXPECT_TRUE(guard.owns_lock());
      order.push_back(1);
    }
  };
  started waiting(here, gives_up(), source.get_token());
  {
    mutex::guard guard(lock, std::try_to_lock);
    source.request_stop();
    EXPECT_EQ(here.run_all(), 0U) << "waits for the mutex";
  }
  here.run_all();
  EXPECT_THAT(order, ElementsAre(1));
  EXPECT_TRUE(is_free());
}

TEST_F(ConditionVariable, StopBeforeTheWaitKeepsTheMutex) {
  inplace_stop_source source;
  source.request_stop();
  auto gives_up = [&]() -> task<> {
    mutex::guard guard(lock, std::try_to_lock);
    try {
      co_await changed.wait(guard);
    } catch (const gyre::operation_cancelled&) {
      EXPECT_TRUE(guard.owns_lock());
      order.push_back(1);
    }
  };
  started waiting(here, gives_up(), source.get_token());
  EXPECT_THAT(order, ElementsAre(1));
}

TEST_F(ConditionVariable, CancelledWaitLeavesTheNotificationToTheNext) {
  inplace_stop_source source;
  auto gives_up = [&]() -> task<> {
    mutex::guard guard = co_await lock.lock();
    co_await changed.wait(guard);
    ADD_FAILURE() << "was not cancelled";
  };
  started first(here, gives_up(), source.get_token());
  started second(here, waits(2));
  source.request_stop();
  changed.notify_one();
  here.run_all();
  EXPECT_THAT(order, ElementsAre(2));
}

TEST_F(ConditionVariable, DestroyedWaiterHoldsNothing) {
  started first(here, waits(1));
  started second(here, waits(2));
  first.drop();
  EXPECT_TRUE(is_free());
  changed.notify_one();
  here.run_all();
  EXPECT_THAT(order, ElementsAre(2));
}

TEST_F(ConditionVariable, WaiterCanBeDestroyedWhileItIsInTheMutexsLine) {
  started first(here, waits(1));
  started second(here, waits(2));
  {
    mutex::guard guard(lock, std::try_to_lock);
    changed.notify_all();
    first.drop();
  }
  here.run_all();
  EXPECT_THAT(order, ElementsAre(2));
  EXPECT_TRUE(is_free());
}

TEST_F(ConditionVariable, HandsValuesFromThreadToThread) {
  const int values = unless_sanitized(20'000);
  std::deque<int> queue;
  auto produces = [&]() -> task<> {
    for (int i = 1; i <= values; ++i) {
      mutex::guard guard = co_await lock.lock();
      auto has_room = [&] { return queue.size() < 4; };
      co_await changed.wait(guard, has_room);
      queue.push_back(i);
      changed.notify_all();
    }
  };
  auto consumes = [&]() -> task<long> {
    long sum = 0;
    for (int i = 1; i <= values; ++i) {
      mutex::guard guard = co_await lock.lock();
      auto has_value = [&] { return !queue.empty(); };
      co_await changed.wait(guard, has_value);
      sum += queue.front();
      queue.pop_front();
      changed.notify_all();
    }
    co_return sum;
  };
  thread_executor one;
  thread_executor other;
  auto first = gyre::spawn_future(one, produces());
  auto second = gyre::spawn_future(other, consumes());
  auto third = gyre::spawn_future(other, produces());
  auto fourth = gyre::spawn_future(one, consumes());
  first.get();
  third.get();
  EXPECT_EQ(second.get() + fourth.get(), static_cast<long>(values) * (values + 1));
}

TEST_F(ConditionVariable, NotifiedAndCancelledAtOnceHasTheMutexAgain) {
  const int rounds = unless_sanitized(25'000);
  thread_executor waiters;
  thread_executor notifier;
  int begun = 0;
  int ended = 0;
  for (int i = 0; i < rounds; ++i) {
    inplace_stop_source source;
    auto ends = [&]() -> task<> {
      mutex::guard guard;
      try {
        guard = co_await lock.lock();
        ++begun;
        co_await changed.wait(guard);
      } catch (const gyre::operation_cancelled&) {
        if (!guard.owns_lock()) co_return;  // cancelled before the wait
      }
      EXPECT_TRUE(guard.owns_lock());
      ++ended;
    };
    auto notifies = [&]() -> task<> {
      changed.notify_one();
      co_return;
    };
    auto first = gyre::spawn_future(waiters, ends(), source.get_token());
    auto second = gyre::spawn_future(waiters, ends(), source.get_token());
    auto third = gyre::spawn_future(notifier, notifies());
    source.request_stop();
    first.get();
    second.get();
    third.get();
  }
  EXPECT_EQ(ended, begun);
  EXPECT_TRUE(is_free());
}

}  // namespace
}  // namespace condition_variable_test

// SPDX-License-Identifier: Apache-2.0
// Model tests of the primitives' states: protected data is free of races, no coroutine waits for an
// available permit or lock, none of them is lost, and a primitive may end with its last user.
//
// Each of these mutations, tried by hand, makes a test fail: state_word's lock() or unlock(),
// mutex's unlock() or try_lock(), unlock_shared() or is_set() is relaxed; a wait that begins while
// the lock is free is not completed; a cancelled writer, or a cancelled request for many permits,
// does not let the waiters behind it go on; a condition variable cancels a waiter that it has
// notified.
#include <gyre/sync/barrier.hpp>
#include <gyre/sync/condition_variable.hpp>
#include <gyre/sync/detail/model_visitor_test_support.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/sync/latch.hpp>
#include <gyre/sync/mutex.hpp>
#include <gyre/sync/semaphore.hpp>
#include <gyre/sync/shared_mutex.hpp>
#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <mutex>

namespace {

namespace model = gyre::model;
using gyre::inplace_stop_source;
using gyre::test::await;
using gyre::test::make_visitor;
using model::assert_that;

// Bounds for scenarios of waits and locks, many of whose schedules are alike.
const model::options few{.preemptions = 2, .stale_reads = 1, .spurious_failures = 0};

TEST(MutexModel, ProtectsPlainMemory) {
  const auto checked = model::check(few, [] {
    gyre::mutex mutex;
    int count = 0;
    const auto increment = [&] {
      const auto guard = await(mutex.lock());
      assert_that(guard.has_value(), "locked");
      ++count;
    };
    {
      model::thread one(increment);
      model::thread other(increment);
      increment();
    }
    assert_that(count == 3, "nothing was lost");
    assert_that(mutex.try_lock(), "free at the end");
    mutex.unlock();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(MutexModel, MayEndWithItsLastUser) {
  const auto checked = model::check(few, [] {
    auto mutex = std::make_unique<gyre::mutex>();
    assert_that(mutex->try_lock(), "locked");
    model::thread first([held = mutex.get()] { held->unlock(); });
    {
      auto guard = await(mutex->lock());
    }
    mutex.reset();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(MutexModel, CancelledWaiterNeitherKeepsNorLosesTheLock) {
  const auto checked = model::check(few, [] {
    gyre::mutex mutex;
    inplace_stop_source source;
    assert_that(mutex.try_lock(), "locked");
    {
      model::thread canceller([&] { source.request_stop(); });
      model::thread holder([&] { mutex.unlock(); });
      static_cast<void>(await(mutex.lock(), source.get_token()));
    }
    assert_that(mutex.try_lock(), "free at the end");
    mutex.unlock();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(SharedMutexModel, KeepsReadersAndWriterApart) {
  const auto checked = model::check(few, [] {
    gyre::shared_mutex mutex;
    int written = 0;
    const auto read = [&] {
      const auto guard = await(mutex.lock_shared());
      assert_that(guard.has_value() && (written == 0 || written == 2), "whole");
    };
    {
      model::thread one(read);
      model::thread other(read);
      const auto guard = await(mutex.lock());
      ++written;
      ++written;
    }
    assert_that(mutex.try_lock(), "free at the end");
    mutex.unlock();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(SharedMutexModel, ReaderGoesOnWhenTheWriterBeforeItIsCancelled) {
  const auto checked = model::check(few, [] {
    gyre::shared_mutex mutex;
    inplace_stop_source source;
    assert_that(mutex.try_lock_shared(), "reading");
    auto writer = make_visitor(mutex.lock(), source.get_token());
    assert_that(writer->begin(), "waits for the reader");
    {
      model::thread canceller([&] { source.request_stop(); });
      assert_that(await(mutex.lock_shared()).has_value(), "reads too");
    }
    writer->sleep();
    assert_that(!writer->end(), "cancelled");
    writer.reset();
    mutex.unlock_shared();
    assert_that(mutex.try_lock(), "free at the end");
    mutex.unlock();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(SemaphoreModel, LosesAndInventsNoPermits) {
  const auto checked = model::check(few, [] {
    gyre::semaphore semaphore(1);
    int inside = 0;
    const auto enter = [&] {
      const auto permit = await(semaphore.permit());
      assert_that(++inside == 1, "alone");
      --inside;
    };
    {
      model::thread one(enter);
      model::thread other(enter);
      enter();
    }
    assert_that(semaphore.available() == 1, "given back");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(SemaphoreModel, CancelledGiantLetsTheSmallPass) {
  const auto checked = model::check(few, [] {
    gyre::semaphore semaphore(1);
    inplace_stop_source source;
    auto giant = make_visitor(semaphore.acquire(3), source.get_token());
    assert_that(giant->begin(), "waits for more");
    {
      model::thread canceller([&] { source.request_stop(); });
      model::thread releaser([&] { semaphore.release(); });
      assert_that(await(semaphore.acquire(2)).has_value(), "acquired");
    }
    giant->sleep();
    assert_that(!giant->end(), "cancelled");
    giant.reset();
    assert_that(semaphore.available() == 0, "all are taken");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(EventModel, MayEndWithTheWaitThatFoundItSet) {
  const auto checked = model::check(few, [] {
    auto event = std::make_unique<gyre::manual_reset_event>();
    int sent = 0;
    model::thread setter([&sent, to = event.get()] {
      sent = 42;
      to->set();
    });
    assert_that(await(event->wait()).has_value() && sent == 42, "arrived");
    event.reset();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(EventModel, AutoResetLetsOnePassForEachSet) {
  const auto checked = model::check(few, [] {
    gyre::auto_reset_event event;
    inplace_stop_source source;
    int passed = 0;
    {
      model::thread setter([&] { event.set(); });
      model::thread canceller([&] { source.request_stop(); });
      passed = await(event.wait(), source.get_token()).has_value();
    }
    assert_that(passed + event.try_wait() == 1, "exactly one");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(LatchModel, MayEndWithTheWaitThatFoundItAtZero) {
  const auto checked = model::check(few, [] {
    auto latch = std::make_unique<gyre::latch>(2);
    int sent = 0;
    model::thread one([&sent, at = latch.get()] {
      sent = 42;
      at->count_down();
    });
    latch->count_down();
    assert_that(await(latch->wait()).has_value() && sent == 42, "arrived");
    latch.reset();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(BarrierModel, NobodyGoesOnBeforeAllHaveArrived) {
  const auto checked = model::check(few, [] {
    int completed = 0;
    const auto complete = [&]() noexcept { ++completed; };
    gyre::barrier barrier(2, complete);
    const auto take_part = [&] {
      assert_that(await(barrier.arrive_and_wait()).has_value(), "arrived");
      assert_that(completed >= 1, "the phase is complete");
      assert_that(await(barrier.arrive_and_wait()).has_value(), "arrived");
      assert_that(completed == 2, "so is the next");
    };
    model::thread other(take_part);
    take_part();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(ConditionVariableModel, NotificationUnderTheMutexIsNotLost) {
  const auto checked = model::check(few, [] {
    gyre::mutex mutex;
    gyre::condition_variable changed;
    bool ready = false;
    model::thread notifier([&] {
      auto guard = await(mutex.lock());
      ready = true;
      changed.notify_one();
    });
    {
      auto guard = await(mutex.lock());
      while (!ready) assert_that(await(changed.wait(*guard)).has_value(), "notified");
    }
    notifier.join();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(ConditionVariableModel, NotifiedAndCancelledAtOnceHasTheMutexAgain) {
  const auto checked = model::check(few, [] {
    gyre::mutex mutex;
    gyre::condition_variable changed;
    inplace_stop_source source;
    {
      gyre::mutex::guard guard(mutex, std::try_to_lock);
      model::thread notifier([&] { changed.notify_all(); });
      model::thread canceller([&] { source.request_stop(); });
      static_cast<void>(await(changed.wait(guard), source.get_token()));
      assert_that(guard.owns_lock() && !mutex.try_lock(), "locked");
    }
    assert_that(mutex.try_lock(), "free at the end");
    mutex.unlock();
  });
  EXPECT_TRUE(checked) << checked;
}

}  // namespace

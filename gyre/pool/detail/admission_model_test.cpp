// SPDX-License-Identifier: Apache-2.0
//
// Model tests of waiting for slots: a queued waiter gets a released slot before any later request,
// or learns that the capacity is closed, or was cancelled. No deadline passes here, so that no
// periodic check hides a lost wake-up.
//
// Each of these mutations, tried by hand, makes a test fail: release() does not release, or
// acquire_between() does not acquire; enqueue() does not check whether a slot is free, whether the
// capacity is closed, or whether the waiter was cancelled; release() does not serve the queue, or
// serves one waiter for several slots; acquire_between() ignores the queue; cancel() does not check
// whether the waiter was served; a wide capacity serves its queue after, or before, half of the
// slots are free.
#include <gyre/pool/detail/capacity.hpp>

#include <gyre/base/atomic.hpp>
#include <gyre/base/clock.hpp>
#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace {

namespace model = gyre::model;
using gyre::steady_time;
using gyre::detail::admission_result;

constexpr steady_time for_ever = steady_time::max();

// futex(2): checks the word and sleeps in one step, as seen by wakers.
struct model_futex {
  using word = gyre::detail::capacity_futex::word;
  static void wait(const word& on, std::uint32_t expected, steady_time /*deadline*/) {
    model::event wakeup;
    {
      const std::lock_guard bucket(kernel);
      if (on.load(std::memory_order_relaxed) != expected) return;
      sleepers.at(asleep++) = {&on, &wakeup};
    }
    wakeup.wait();
  }
  static void wake(const word* on) {
    const std::lock_guard bucket(kernel);
    ++calls;
    for (std::size_t i = 0; i < asleep; ++i) {
      if (sleepers.at(i).on != on) continue;
      sleepers.at(i).wakeup->wake();
      sleepers.at(i) = sleepers.at(--asleep);
      return;
    }
  }
  static steady_time now() { return steady_time{}; }

  struct sleeper {
    const word* on;
    model::event* wakeup;
  };
  static inline std::mutex kernel;
  static inline std::array<sleeper, 8> sleepers{};
  static inline std::size_t asleep = 0;
  static inline int calls = 0;
};

using capacity = gyre::detail::basic_capacity<model_futex>;

// A pool whose slots are all taken.
struct full_room {
  explicit full_room(std::size_t limit) : room(limit) {
    model_futex::calls = 0;  // there may be calls of an earlier check
    model::assert_that(room.try_acquire(limit), "all slots can be taken");
  }
  admission_result wait() {
    return room.wait_until(for_ever, 1, [] {}).result;
  }
  void wait_for_granted() { model::assert_that(wait() == admission_result::granted, "granted"); }

  capacity room;
};

// Queues like a coroutine.
struct queued_waiter : gyre::detail::slot_waiter {
  queued_waiter()
      : slot_waiter(
            [](slot_waiter& self) noexcept { static_cast<queued_waiter&>(self).served.wake(); }) {}
  model::event served;
};

TEST(CapacityModel, AWaiterGetsTheReleasedSlot) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    full_room full(1);
    model::thread giver([&] { full.room.release(1); });
    full.wait_for_granted();
    giver.join();
    model::assert_that(full.room.free() == 0, "it is taken again");
    model::assert_that(model_futex::calls <= 1, "one system call at most");
    const int calls_for_the_waiter = model_futex::calls;
    full.room.release(1);
    model::assert_that(model_futex::calls == calls_for_the_waiter, "and none for nobody");
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

TEST(CapacityModel, ServesAsManyWaitersAsThereAreSlots) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 1}, [] {
    full_room full(2);
    model::thread one([&] { full.wait_for_granted(); });
    model::thread other([&] { full.wait_for_granted(); });
    full.room.release(2);
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(CapacityModel, EachOfSeveralSlotsFindsAWaiter) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 1}, [] {
    full_room full(2);
    model::thread one([&] { full.wait_for_granted(); });
    model::thread other([&] { full.wait_for_granted(); });
    full.room.release(1);
    full.room.release(1);
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(CapacityModel, OneSlotGoesFromWaiterToWaiter) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 1}, [] {
    full_room full(1);
    const auto visit = [&] {
      full.wait_for_granted();
      full.room.release(1);
    };
    model::thread one(visit);
    full.room.release(1);
    visit();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(CapacityModel, ALaterRequestDoesNotOvertakeAWaiter) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 2}, [] {
    full_room full(1);
    queued_waiter first;
    model::assert_that(full.room.enqueue(first) == capacity::enqueue_result::waits,
                       "the room is full");
    model::thread barger(
        [&] { model::assert_that(!full.room.try_acquire(1), "there is a queue"); });
    full.room.release(1);
    first.served.wait();
    model::assert_that(first.granted() == 1, "it was given to the first");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(CapacityModel, ACancelledWaiterIsNotServedAndLosesNoSlot) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 2}, [] {
    full_room full(1);
    queued_waiter first;
    model::assert_that(full.room.enqueue(first) == capacity::enqueue_result::waits,
                       "the room is full");
    model::thread giver([&] { full.room.release(1); });
    const bool cancelled = full.room.cancel(first);
    if (!cancelled) first.served.wait();
    giver.join();
    model::assert_that(
        first.is_cancelled() == cancelled && first.granted() == (cancelled ? 0U : 1U), "or");
    model::assert_that(full.room.try_acquire(cancelled ? 1 : 0), "what it did not take is free");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(CapacityModel, AWaiterCancelledBeforeItQueuesDoesNotWait) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 2}, [] {
    full_room full(1);
    queued_waiter waiter;
    bool cancelled = false;
    {
      model::thread canceller([&] { cancelled = full.room.cancel(waiter); });
      const auto result = full.room.enqueue(waiter);
      canceller.join();
      model::assert_that(cancelled == (result == capacity::enqueue_result::waits),
                         "one of both has seen it");
    }
    full.room.release(1);
    model::assert_that(full.room.try_acquire(1), "and there is no queue");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(CapacityModel, AWideCapacityServesWhenHalfIsFree) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 2}, [] {
    full_room full(capacity::wide);
    model::thread waiter([&] { full.wait_for_granted(); });
    full.room.release(capacity::wide / 4);
    model::assert_that(model_futex::calls == 0, "nobody is woken for a quarter");
    full.room.release(capacity::wide / 4);
    waiter.join();
    model::assert_that(model_futex::calls <= 1, "one system call for thousands of slots");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(CapacityModel, ClosingEndsAllWaits) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 1}, [] {
    full_room full(1);
    const auto wait_in_vain = [&] {
      model::assert_that(full.wait() == admission_result::closed, "closed");
    };
    model::thread one(wait_in_vain);
    model::thread other(wait_in_vain);
    full.room.close();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(CapacityModel, AnAcquireSeesWhatCameBeforeTheRelease) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    full_room full(1);
    int written = 0;
    model::thread giver([&] {
      written = 1;
      full.room.release(1);
    });
    full.wait_for_granted();
    model::assert_that(written == 1, "what was done before is visible");
  });
  EXPECT_TRUE(checked) << checked;
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
//
// Model tests of waiting for slots, by threads: a waiter gets a released slot before any later
// request, or learns that the admission is closed, or gives up. Coroutines wait in the same line:
// see primitives_model_test.cpp. No sleep ends by its deadline here, so that no periodic check
// hides a lost wake-up.
#include <gyre/pool/detail/admission.hpp>

#include <gyre/base/atomic.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/detail/futex.hpp>
#include <gyre/sync/detail/blocked_acquire.hpp>
#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace model = gyre::model;
using model::assert_that;

// futex(2): checks the word and sleeps in one step, as seen by wakers, which know the word by its
// address alone.
namespace {
struct sleeper {
  const void* word;
  model::event* wakeup;
};
std::mutex kernel;
std::array<sleeper, 8> sleepers{};
std::size_t asleep = 0;
int wake_calls = 0;
}  // namespace

void gyre::detail::futex_wait_until(const atomic<std::uint32_t>& word, std::uint32_t expected,
                                    steady_time /*deadline*/) noexcept {
  model::event wakeup;
  {
    const std::lock_guard bucket(kernel);
    if (word.load(std::memory_order_relaxed) != expected) return;
    sleepers.at(asleep++) = {&word, &wakeup};
  }
  wakeup.wait();
}

void gyre::detail::futex_wake_one(const atomic<std::uint32_t>* word) noexcept {
  const std::lock_guard bucket(kernel);
  ++wake_calls;
  for (std::size_t i = 0; i < asleep; ++i) {
    if (sleepers.at(i).word != word) continue;
    sleepers.at(i).wakeup->wake();
    sleepers.at(i) = sleepers.at(--asleep);
    return;
  }
}

namespace {

using gyre::steady_time;
using gyre::detail::admission;
using gyre::detail::admission_result;
using gyre::detail::blocked_acquire;

constexpr steady_time for_ever = steady_time::max();
constexpr steady_time long_ago{};

// Bounds for scenarios of waits and locks, many of whose schedules are alike.
const model::options few{.preemptions = 2, .stale_reads = 1, .spurious_failures = 0};

// All slots of it are taken.
struct full_gate : admission {
  explicit full_gate(std::size_t capacity) : admission(capacity) {
    // An earlier schedule may have been given up.
    wake_calls = 0;
    asleep = 0;
    assert_that(slots().try_acquire(capacity), "all slots can be taken");
  }
  admission_result wait(steady_time deadline = for_ever) { return wait_until(deadline, 1).result; }
  void wait_for_granted() { assert_that(wait() == admission_result::granted, "granted"); }
};

void sleep_until_ended(blocked_acquire& wait) {
  while (!wait.has_ended()) wait.sleep_until(for_ever);
}

TEST(AdmissionModel, AWaiterGetsTheReleasedSlot) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 2}, [] {
    full_gate gate(1);
    model::thread giver([&] { gate.release(1); });
    gate.wait_for_granted();
    giver.join();
    assert_that(gate.free_slots() == 0, "it is taken again");
    assert_that(wake_calls <= 1, "one system call at most");
    const int calls_for_the_waiter = wake_calls;
    gate.release(1);
    assert_that(wake_calls == calls_for_the_waiter, "and none for nobody");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(AdmissionModel, ServesAsManyWaitersAsThereAreSlots) {
  const auto checked = model::check(few, [] {
    full_gate gate(2);
    model::thread one([&] { gate.wait_for_granted(); });
    model::thread other([&] { gate.wait_for_granted(); });
    gate.release(2);
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(AdmissionModel, EachOfSeveralSlotsFindsAWaiter) {
  const auto checked = model::check(few, [] {
    full_gate gate(2);
    model::thread one([&] { gate.wait_for_granted(); });
    model::thread other([&] { gate.wait_for_granted(); });
    gate.release(1);
    gate.release(1);
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(AdmissionModel, OneSlotGoesFromWaiterToWaiter) {
  const auto checked = model::check(few, [] {
    full_gate gate(1);
    const auto visit = [&] {
      gate.wait_for_granted();
      gate.release(1);
    };
    model::thread one(visit);
    gate.release(1);
    visit();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(AdmissionModel, ALaterRequestDoesNotOvertakeAWaiter) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 2}, [] {
    full_gate gate(1);
    blocked_acquire first(gate.slots(), 1);
    model::thread barger([&] { assert_that(gate.try_acquire().count() == 0, "there is a line"); });
    gate.release(1);
    sleep_until_ended(first);
    assert_that(first.end() == 1, "it was given to the first");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(AdmissionModel, AWaiterThatGivesUpIsNotServedAndLosesNoSlot) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 2}, [] {
    full_gate gate(1);
    bool granted = false;
    {
      model::thread giver([&] { gate.release(1); });
      const admission_result result = gate.wait(long_ago);
      granted = result == admission_result::granted;
      assert_that(granted || result == admission_result::timed_out, "one of the two");
    }
    assert_that(gate.free_slots() == (granted ? 0U : 1U), "what it did not take is free");
    assert_that(!gate.slots().has_waiters(), "and there is no line");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(AdmissionModel, AWideAdmissionServesWhenHalfIsFree) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 2}, [] {
    full_gate gate(admission::wide_capacity);
    blocked_acquire waiter(gate.slots(), admission::wide_capacity + 1);
    {
      model::thread giver([&] {
        gate.release(admission::wide_capacity / 4);
        assert_that(wake_calls == 0, "nobody is woken for a quarter");
        gate.release(admission::wide_capacity / 4);
      });
      sleep_until_ended(waiter);
    }
    assert_that(waiter.end() == 1, "a slot each");
    assert_that(wake_calls <= 1, "one system call for thousands of slots");
    assert_that(gate.free_slots() == admission::wide_capacity / 2 - 1, "the others are free");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(AdmissionModel, HalfOfTheSlotsServesAWaitThatBeginsAtThatMoment) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 2}, [] {
    full_gate gate(admission::wide_capacity);
    model::thread giver([&] { gate.release(admission::wide_capacity / 2); });
    gate.wait_for_granted();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(AdmissionModel, HalfOfTheSlotsServesAWholeWideLine) {
  const auto checked = model::check(few, [] {
    full_gate gate(admission::wide_capacity);
    model::thread one([&] { gate.wait_for_granted(); });
    model::thread other([&] { gate.wait_for_granted(); });
    gate.release(admission::wide_capacity / 2);
  });
  EXPECT_TRUE(checked) << checked;
}

// The second stands for the coroutine: it does not look again.
TEST(AdmissionModel, EachSlotServesAWideLineInWhichACoroutineWaits) {
  const auto checked = model::check(few, [] {
    full_gate gate(admission::wide_capacity);
    blocked_acquire first(gate.slots(), admission::wide_capacity + 1);
    model::thread giver([&] {
      gate.release(1);
      gate.release(1);
    });
    gate.join_line();
    blocked_acquire second(gate.slots(), 1);
    sleep_until_ended(first);
    sleep_until_ended(second);
    gate.leave_line();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(AdmissionModel, ClosingEndsAllWaits) {
  const auto checked = model::check(few, [] {
    full_gate gate(1);
    const auto wait_in_vain = [&] {
      assert_that(gate.wait() == admission_result::closed, "closed");
    };
    model::thread one(wait_in_vain);
    model::thread other(wait_in_vain);
    gate.close();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(AdmissionModel, ClosingLosesNoSlotThatIsReleasedMeanwhile) {
  const auto checked = model::check(few, [] {
    full_gate gate(1);
    admission_result result{};
    {
      model::thread waiter([&] { result = gate.wait(); });
      model::thread giver([&] { gate.release(1); });
      gate.close();
    }
    assert_that(gate.free_slots() == (result == admission_result::granted ? 0U : 1U),
                "it is somewhere");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(AdmissionModel, AnAcquireSeesWhatCameBeforeTheRelease) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 2}, [] {
    full_gate gate(1);
    int written = 0;
    model::thread giver([&] {
      written = 1;
      gate.release(1);
    });
    gate.wait_for_granted();
    assert_that(written == 1, "what was done before is visible");
  });
  EXPECT_TRUE(checked) << checked;
}

}  // namespace

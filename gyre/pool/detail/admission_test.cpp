// SPDX-License-Identifier: Apache-2.0
// Tests of the admission of a pool. Its model test shows that no interleaving forgets a blocked
// thread.
#include <gyre/pool/detail/admission.hpp>

#include <gyre/sync/detail/blocked_acquire.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <limits>
#include <thread>
#include <vector>

namespace admission_test {
namespace {

using namespace std::chrono_literals;
using gyre::steady_time;
using gyre::when_full;
using gyre::detail::admission;
using gyre::detail::admission_result;
using gyre::detail::blocked_acquire;

constexpr steady_time for_ever = steady_time::max();
constexpr steady_time long_ago{};

// All slots of it are taken.
struct full_gate : admission {
  explicit full_gate(std::size_t capacity) : admission(capacity) {
    EXPECT_TRUE(slots().try_acquire(capacity));
  }
};

TEST(Admission, TakesASlotIfThereIsOne) {
  admission gate(1);
  EXPECT_EQ(gate.limit(), 1U);
  EXPECT_EQ(gate.free_slots(), 1U);
  {
    const auto slot = gate.try_acquire();
    EXPECT_EQ(slot.count(), 1U);
    EXPECT_EQ(gate.free_slots(), 0U);
    EXPECT_EQ(gate.try_acquire().count(), 0U);
  }
  EXPECT_EQ(gate.free_slots(), 1U);
}

TEST(Admission, LeavesMostSlotsToTasksThatWaitHoweverManyWorkersRun) {
  admission gate(16'384);
  gate.set_workers(1024);
  std::size_t stock = 0;
  EXPECT_TRUE(gate.slots().try_acquire(1));
  gate.release_later(true, stock);
  EXPECT_EQ(stock, 0u) << "one slot for each of them is a 16th";
  EXPECT_EQ(gate.free_slots(), 16'384u);
  gate.set_workers(2);
  EXPECT_TRUE(gate.slots().try_acquire(1));
  gate.release_later(true, stock);
  EXPECT_EQ(stock, 1u);
  gate.release(stock);
}

TEST(Admission, TakesManyOfManySlotsAndOneOfFew) {
  admission gate(640);
  EXPECT_EQ(gate.try_acquire_portion(7), 7U);
  EXPECT_EQ(gate.try_acquire_portion(64), 9U) << "a 64th of what is free";
  EXPECT_TRUE(gate.slots().try_acquire(624 - 10));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(gate.try_acquire_portion(64), 1U);
  EXPECT_EQ(gate.try_acquire_portion(64), 0U);
  EXPECT_EQ(gate.free_slots(), 0U);
}

TEST(Admission, ChunksLeaveSmallLimitsExact) {
  EXPECT_EQ(admission(1).chunk_size(), 1U);
  EXPECT_EQ(admission(511).chunk_size(), 1U);
  EXPECT_EQ(admission(512).chunk_size(), 2U);
  EXPECT_EQ(admission(4096).chunk_size(), 16U);
  EXPECT_EQ(admission(1 << 16).chunk_size(), 64U);
  EXPECT_EQ(admission(1 << 20).chunk_size(), 64U);
}

TEST(Admission, HasNoSmallUpperBound) {
  admission gate(std::numeric_limits<std::size_t>::max());
  EXPECT_GE(gate.limit(), std::size_t{1} << 39);
  EXPECT_EQ(gate.free_slots(), gate.limit());
  EXPECT_TRUE(gate.slots().try_acquire(gate.limit()));
  gate.release(gate.limit());
  EXPECT_EQ(gate.free_slots(), gate.limit());
}

TEST(Admission, WorkersReleaseSlotsInChunksUnlessSomethingWaits) {
  full_gate gate(512);
  std::size_t stock = 0;
  gate.release_later(true, stock);
  EXPECT_EQ(gate.free_slots(), 0U);
  EXPECT_EQ(stock, 1U);
  gate.release_later(true, stock);
  EXPECT_EQ(gate.free_slots(), 2U);
  EXPECT_EQ(stock, 0U);
  gate.join_line();
  gate.release_later(true, stock);
  EXPECT_EQ(gate.free_slots(), 3U);
  gate.leave_line();
  gate.add_slotless();
  gate.release_later(false, stock);
  EXPECT_EQ(gate.free_slots(), 3U) << "that task had none";
}

TEST(Admission, AppliesThePolicy) {
  using step = admission::step;
  using waiting = admission::waiting;
  struct expected {
    when_full policy;
    step blocks, suspends, fails, within;
  };
  for (const expected& each : std::array{
           expected{when_full::block, step::wait, step::suspend, step::refuse, step::go_slotless},
           expected{when_full::reject, step::refuse, step::refuse, step::refuse, step::refuse},
           expected{when_full::caller_runs, step::run_here, step::suspend, step::run_here,
                    step::run_here},
           expected{when_full::drop_oldest, step::drop_another, step::drop_another,
                    step::drop_another, step::drop_another}}) {
    const admission gate(1, each.policy);
    EXPECT_EQ(gate.choose_step_outside(waiting::blocks), each.blocks);
    EXPECT_EQ(gate.choose_step_outside(waiting::suspends), each.suspends);
    EXPECT_EQ(gate.choose_step_outside(waiting::fails), each.fails);
    EXPECT_EQ(gate.choose_step_within(), each.within);
  }
}

class AdmissionLine : public testing::TestWithParam<std::size_t> {};

TEST_P(AdmissionLine, WaitsEndAtTheDeadline) {
  full_gate gate(GetParam());
  EXPECT_EQ(gate.wait_until(long_ago, 1).result, admission_result::timed_out);
  const steady_time deadline = gyre::detail::monotonic_now() + 10ms;
  EXPECT_EQ(gate.wait_until(deadline, 1).result, admission_result::timed_out);
  EXPECT_GE(gyre::detail::monotonic_now(), deadline);
  gate.release(1);
  EXPECT_EQ(gate.try_acquire().count(), 1U) << "the line is empty";
  EXPECT_FALSE(gate.is_urgent());
}

TEST(Admission, GrantsAFreeSlotAfterTheDeadlineOrTheEnd) {
  admission gate(2);
  EXPECT_EQ(gate.wait_until(long_ago, 1).result, admission_result::granted);
  gate.close();
  EXPECT_EQ(gate.wait_until(for_ever, 1).result, admission_result::granted);
  EXPECT_EQ(gate.wait_until(for_ever, 1).result, admission_result::closed);
}

TEST_P(AdmissionLine, ClosingEndsAllWaits) {
  full_gate gate(GetParam());
  {
    std::vector<std::jthread> waiting;
    for (int i = 0; i < 4; ++i) {
      waiting.emplace_back(
          [&] { EXPECT_EQ(gate.wait_until(for_ever, 1).result, admission_result::closed); });
    }
    while (!gate.is_urgent()) std::this_thread::yield();
    gate.close();
  }
  EXPECT_EQ(gate.free_slots(), 0U);
  EXPECT_FALSE(gate.is_urgent());
}

// Each released slot goes to the line, so that no later request overtakes.
TEST_P(AdmissionLine, IsServedInOrderBeforeOtherRequests) {
  full_gate gate(GetParam());
  gate.join_line();
  std::array<blocked_acquire, 3> waits{{{gate.slots(), 1}, {gate.slots(), 1}, {gate.slots(), 1}}};
  for (std::size_t served = 0; served < waits.size(); ++served) {
    EXPECT_EQ(gate.try_acquire_portion(1), 0U);
    for (std::size_t i = 0; i < waits.size(); ++i) EXPECT_EQ(waits[i].has_ended(), i < served);
    gate.release(1);
    EXPECT_EQ(gate.try_acquire().count(), 0U) << "the slot went to the line";
  }
  for (blocked_acquire& each : waits) EXPECT_EQ(each.end(), 1U);
  gate.leave_line();
  gate.release(1);
  EXPECT_EQ(gate.try_acquire().count(), 1U) << "the line is empty";
}

// A waiting thread is served although another thread takes every slot that it can get.
TEST_P(AdmissionLine, ServesAThreadBeforeOtherRequests) {
  full_gate gate(GetParam());
  for (int round = 0; round < 20; ++round) {
    std::jthread waiting(
        [&] { EXPECT_EQ(gate.wait_until(for_ever, 1).result, admission_result::granted); });
    // try_acquire() fails once the thread is in the line.
    for (;;) {
      gate.release(1);
      auto slot = gate.try_acquire();
      if (slot.forget() == 0) break;
    }
    waiting.join();
    EXPECT_EQ(gate.free_slots(), 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(NarrowAndWide, AdmissionLine,
                         testing::Values(3, admission::wide_capacity));

TEST(Admission, HalfOfTheSlotsServesTheWholeLine) {
  full_gate gate(admission::wide_capacity);
  std::vector<std::jthread> waiting;
  std::atomic<int> served{0};
  for (int i = 0; i < 4; ++i) {
    waiting.emplace_back([&] {
      EXPECT_EQ(gate.wait_until(for_ever, 1).result, admission_result::granted);
      ++served;
    });
  }
  while (!gate.slots().has_waiters()) std::this_thread::yield();
  gate.release(admission::wide_capacity / 2);
  waiting.clear();
  EXPECT_EQ(served, 4);
  EXPECT_EQ(gate.free_slots(), admission::wide_capacity / 2 - 4);
}

class AdmissionUnderLoad : public testing::TestWithParam<std::size_t> {};

TEST_P(AdmissionUnderLoad, NeverExceedsTheLimitAndForgetsNoWaiter) {
  admission gate(GetParam());
  constexpr int visits = 2000;
  std::atomic<std::size_t> inside{0};
  std::atomic<std::size_t> most{0};
  {
    std::vector<std::jthread> visitors;
    for (int i = 0; i < 4; ++i) {
      visitors.emplace_back([&] {
        for (int visit = 0; visit < visits; ++visit) {
          const auto [result, taken] = gate.wait_until(for_ever, GetParam() / 2 + 1);
          ASSERT_EQ(result, admission_result::granted);
          const std::size_t now = inside += taken;
          std::size_t seen = most;
          while (seen < now && !most.compare_exchange_weak(seen, now)) {
          }
          inside -= taken;
          gate.release(taken);
        }
      });
    }
  }
  EXPECT_EQ(inside, 0U);
  EXPECT_LE(most, GetParam());
  EXPECT_EQ(gate.free_slots(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(NarrowAndWide, AdmissionUnderLoad,
                         testing::Values(1, 3, admission::wide_capacity));

}  // namespace
}  // namespace admission_test

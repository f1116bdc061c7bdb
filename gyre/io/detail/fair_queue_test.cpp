// SPDX-License-Identifier: Apache-2.0
// Tests of the order in which ready handles are served, and of their shares.
#include <gyre/io/detail/fair_queue.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace fair_queue_test {
namespace {

using gyre::io::handle;
using gyre::io::detail::fair_queue;
using gyre::io::detail::handle_queue;
using testing::ElementsAre;

std::vector<std::unique_ptr<handle>> make_handles(std::size_t count) {
  std::vector<std::unique_ptr<handle>> made;
  for (std::size_t i = 0; i < count; ++i) made.push_back(std::make_unique<handle>());
  return made;
}

std::vector<handle*> pop_all(handle_queue& queue) {
  std::vector<handle*> popped;
  while (queue.size() > 0) popped.push_back(queue.pop());
  return popped;
}

TEST(HandleQueue, HandlesLeaveInAnyOrder) {
  handle a, b, c, stranger;
  handle_queue queue;
  queue.reserve(3);
  for (handle* const each : {&a, &b, &c}) queue.push(*each);
  EXPECT_TRUE(queue.remove(b));
  EXPECT_FALSE(queue.remove(b));
  EXPECT_FALSE(queue.remove(stranger));
  EXPECT_THAT(pop_all(queue), ElementsAre(&a, nullptr, &c));
}

TEST(HandleQueue, GrowsWithHandlesInIt) {
  const auto handles = make_handles(100);
  handle_queue queue;
  queue.reserve(8);
  for (std::size_t i = 0; i < 6; ++i) queue.push(*handles[i]);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(queue.pop(), handles[i].get());
  for (std::size_t i = 6; i < 100; ++i) {
    queue.reserve(i);
    queue.push(*handles[i]);
  }
  EXPECT_TRUE(queue.remove(*handles[50]));
  for (std::size_t i = 4; i < 100; ++i) {
    EXPECT_EQ(queue.pop(), i == 50 ? nullptr : handles[i].get());
  }
}

TEST(HandleQueue, HandlesThatComeAndGoFindRoom) {
  handle_queue queue;
  handle stays, comes;
  queue.reserve(2);
  queue.push(stays);
  for (int i = 0; i < 1000; ++i) {
    queue.reserve(2);
    queue.push(comes);
    EXPECT_TRUE(queue.remove(comes));
  }
  EXPECT_EQ(queue.pop(), &stays);
}

class FairQueue : public testing::Test {
 protected:
  FairQueue() {
    queue_.reserve(100);
    queue_.begin_turn(64);
  }
  // The old handles, once around.
  std::vector<handle*> serve_round() {
    std::vector<handle*> served;
    for (std::size_t left = queue_.begin_round(); left > 0; --left) {
      served.push_back(queue_.pop_old());
    }
    return served;
  }
  void keep_busy(handle& busy) {
    queue_.push_old(busy);
    serve_round();
    queue_.note_used(busy, fair_queue::heavy_use);
  }

  fair_queue queue_;
  handle a_, b_, c_;
};

TEST_F(FairQueue, TheShareDependsOnHowManyAreReady) {
  // Shares of an old handle, and of a new one after those of the least turn.
  const auto shares = [this](std::size_t ready) {
    queue_.begin_turn(ready);
    queue_.note_moved(fair_queue::min_turn);
    return std::pair(queue_.share(), queue_.share_of_new());
  };
  constexpr std::size_t kib = 1024;
  EXPECT_EQ(shares(0), std::pair(1024 * kib, 1024 * kib));
  EXPECT_EQ(shares(4), std::pair(1024 * kib, 1024 * kib));
  EXPECT_EQ(shares(16), std::pair(1024 * kib, 256 * kib));
  EXPECT_EQ(shares(64), std::pair(512 * kib, 64 * kib));
  EXPECT_EQ(shares(10'000), std::pair(256 * kib, 64 * kib));
}

// A large message that is cut in pieces costs more calls.
TEST_F(FairQueue, TheFirstNewHandlesOfATurnGetAWholeShare) {
  for (const std::size_t ready : {std::size_t{4}, std::size_t{64}, std::size_t{10'000}}) {
    queue_.begin_turn(ready);
    EXPECT_EQ(queue_.share_of_new(), queue_.share());
    queue_.note_moved(fair_queue::min_turn - 1);
    EXPECT_EQ(queue_.share_of_new(), queue_.share());
  }
}

TEST_F(FairQueue, WaitingHandlesAreReadyToo) {
  const auto handles = make_handles(64);
  for (const auto& each : handles) queue_.push_old(*each);
  queue_.begin_turn(0);
  EXPECT_EQ(queue_.share(), std::size_t{512} << 10);
}

TEST_F(FairQueue, ANewHandleDoesNotWaitBehindOldOnes) {
  queue_.push_old(a_);
  queue_.push_old(b_);
  queue_.push(c_);
  EXPECT_EQ(queue_.count_of_new(), 1u);
  EXPECT_EQ(queue_.pop_new(), &c_);
}

TEST_F(FairQueue, ARoundServesEachOldHandleOnce) {
  queue_.push_old(a_);
  queue_.push_old(b_);
  EXPECT_EQ(queue_.begin_round(), 2u);
  EXPECT_EQ(queue_.pop_old(), &a_);
  queue_.push_old(a_);
  queue_.push_old(c_);
  EXPECT_EQ(queue_.begin_round(), 1u);
  EXPECT_EQ(queue_.pop_old(), &b_);
  EXPECT_THAT(serve_round(), ElementsAre(&a_, &c_));
}

TEST_F(FairQueue, AHandleThatHasUsedMuchIsOldForSomeRounds) {
  keep_busy(a_);
  for (int round = 0; round <= fair_queue::rounds_of_memory; ++round) {
    EXPECT_FALSE(queue_.is_new(a_)) << round;
    queue_.push_old(b_);
    serve_round();
  }
  EXPECT_TRUE(queue_.is_new(a_));
}

TEST_F(FairQueue, ATurnWithoutOldHandlesIsNoRound) {
  keep_busy(a_);
  for (int turn = 0; turn < 2 * fair_queue::rounds_of_memory; ++turn) {
    EXPECT_EQ(queue_.begin_round(), 0u);
  }
  EXPECT_FALSE(queue_.is_new(a_));
}

TEST_F(FairQueue, AHandleThatUsesLittleAfterMuchIsNewAgain) {
  keep_busy(a_);
  queue_.push(a_);
  EXPECT_EQ(queue_.count_of_new(), 0u);
  serve_round();
  queue_.note_used(a_, 100);
  EXPECT_TRUE(queue_.is_new(a_));
}

// A new handle that returns again and again would starve the old ones.
TEST_F(FairQueue, ANewHandleGetsNoMoreThanAShareInARound) {
  queue_.push_old(b_);
  queue_.push_old(c_);
  queue_.begin_round();
  std::size_t used = 0;
  for (; queue_.is_new(a_); used += fair_queue::cost_of_request) {
    ASSERT_LT(used, 2 * fair_queue::max_share);
    queue_.note_used(a_, fair_queue::cost_of_request);
  }
  EXPECT_EQ(used, queue_.share());
  queue_.pop_old();
  queue_.pop_old();
  queue_.push_old(b_);
  queue_.begin_round();
  EXPECT_TRUE(queue_.is_new(a_)) << "it has a share of the next round";
}

TEST_F(FairQueue, ATurnEndsAfterItsBytes) {
  const auto bytes_of_turn = [this](std::size_t ready) {
    constexpr std::size_t step = fair_queue::min_turn / 16;
    std::size_t bytes = 0;
    for (queue_.begin_turn(ready); !queue_.is_turn_over(); bytes += step) queue_.note_moved(step);
    return bytes;
  };
  EXPECT_EQ(bytes_of_turn(0), fair_queue::min_turn);
  EXPECT_EQ(bytes_of_turn(32), fair_queue::min_turn);
  EXPECT_EQ(bytes_of_turn(48), 48 * fair_queue::bytes_of_turn_each);
  EXPECT_EQ(bytes_of_turn(10'000), fair_queue::max_turn);
}

TEST_F(FairQueue, AHandleLeavesTheQueueInWhichItWaits) {
  queue_.push(a_);
  queue_.push_old(b_);
  queue_.remove(b_);
  queue_.remove(a_);
  EXPECT_EQ(queue_.pop_new(), nullptr);
  EXPECT_THAT(serve_round(), ElementsAre(nullptr));
}

}  // namespace
}  // namespace fair_queue_test

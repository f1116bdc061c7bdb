// SPDX-License-Identifier: Apache-2.0
// Tests of the fifo inbox. In small segments tasks often reach the end, where segments are linked,
// retired and reused.
#include <gyre/exec/inbox/fifo.hpp>

#include <gyre/exec/inbox/inbox_stress_test_suite.hpp>
#include <gyre/exec/inbox/inbox_test_suite.hpp>

#include <latch>
#include <thread>
#include <vector>

namespace gyre::inbox::suite {

using fifo_inboxes = ::testing::Types<fifo, basic_fifo<2>, basic_fifo<4>, basic_fifo<7>>;
INSTANTIATE_TYPED_TEST_SUITE_P(fifo, InboxSuite, fifo_inboxes);
INSTANTIATE_TYPED_TEST_SUITE_P(fifo, InboxStressSuite, fifo_inboxes);

static_assert(fifo::order == ordering::total);

TEST(Fifo, ALoopThatPostsToItselfPassesTheHighWaterMark) {
  const int tasks = 3 * static_cast<int>(fifo::high_water);
  fifo inbox;
  std::vector<int> seen;
  inbox.push([&] {
    for (int i = 0; i < tasks; ++i) inbox.push([&seen, i] { seen.push_back(i); });
  });
  EXPECT_EQ(run(inbox), 1 + static_cast<std::size_t>(tasks));
  EXPECT_EQ(seen, numbers_up_to(tasks));
}

TEST(Fifo, ProducersGetPastAConsumerThatDoesNothing) {
  constexpr std::size_t producers = 4;
  const int tasks = static_cast<int>(fifo::high_water) / 2;
  fifo inbox;
  ledger book(producers);
  {
    std::vector<std::jthread> threads;
    for (std::size_t producer = 0; producer < producers; ++producer) {
      threads.emplace_back([&, producer] {
        for (int i = 0; i < tasks; ++i) inbox.push([&, producer, i] { book.enter(producer, i); });
      });
    }
  }
  const std::size_t posted = producers * static_cast<std::size_t>(tasks);
  EXPECT_EQ(inbox.pending(), posted);
  EXPECT_EQ(run(inbox), posted);
  EXPECT_EQ(book.next(), std::vector<int>(producers, tasks));
}

TEST(Fifo, ThreadsThatFindASegmentFullTogetherLoseNothing) {
  constexpr std::size_t producers = 8;
  constexpr int rounds = 100;
  for (int round = 0; round < rounds; ++round) {
    basic_fifo<2> inbox;
    ledger book(producers);
    inbox.push([] {});
    inbox.push([] {});
    {
      std::latch start(producers);
      std::vector<std::jthread> threads;
      for (std::size_t producer = 0; producer < producers; ++producer) {
        threads.emplace_back([&, producer] {
          start.arrive_and_wait();
          for (int i = 0; i < 3; ++i) inbox.push([&, producer, i] { book.enter(producer, i); });
        });
      }
    }
    EXPECT_EQ(inbox.pending(), 2 + producers * 3);
    EXPECT_EQ(run(inbox), 2 + producers * 3);
    EXPECT_EQ(book.next(), std::vector<int>(producers, 3));
  }
}

}  // namespace gyre::inbox::suite

// SPDX-License-Identifier: Apache-2.0
// Tests of gyre's own inboxes with many threads, which a Release optimises. In small segments tasks
// often reach the end, where segments are linked, retired and reused.
#include <gyre/exec/inbox/fifo.hpp>
#include <gyre/exec/inbox/inbox_stress_test_suite.hpp>
#include <gyre/exec/inbox/own_inboxes_test_support.hpp>
#include <gyre/exec/inbox/sharded.hpp>

#include <deque>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

namespace gyre::inbox::suite {

INSTANTIATE_TYPED_TEST_SUITE_P(fifo, InboxStressSuite, fifo_inboxes);

INSTANTIATE_TYPED_TEST_SUITE_P(sharded, InboxStressSuite, sharded_inboxes);

TEST(FifoStress, ProducersGetPastAConsumerThatDoesNothing) {
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

TEST(FifoStress, ThreadsThatFindASegmentFullTogetherLoseNothing) {
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

template <class Inbox>
class ShardedStress : public ::testing::Test {};
TYPED_TEST_SUITE(ShardedStress, sharded_inboxes);

TYPED_TEST(ShardedStress, OneThreadPostsToHundredsOfInboxes) {
  constexpr int inboxes = 300;
  std::vector<std::unique_ptr<TypeParam>> all;
  for (int i = 0; i < inboxes; ++i) all.push_back(std::make_unique<TypeParam>());
  std::deque<ledger> books;
  for (int i = 0; i < inboxes; ++i) books.emplace_back(1);
  std::thread([&] {
    for (int number = 0; number < 10; ++number) {
      for (std::size_t i = 0; i < inboxes; ++i) post(*all[i], books[i], 0, number);
    }
    // The remaining shards are found after others have ended.
    for (std::size_t i = 0; i < inboxes; i += 2) all[i].reset();
    TypeParam fresh;
    fresh.push([] {});
    for (std::size_t i = 1; i < inboxes; i += 2) post(*all[i], books[i], 0, 10);
  }).join();
  for (std::size_t i = 1; i < inboxes; i += 2) {
    EXPECT_EQ(all[i]->pending(), 11U);
    EXPECT_EQ(run(*all[i]), 11U);
    EXPECT_EQ(books[i].next().front(), 11);
  }
}

}  // namespace gyre::inbox::suite

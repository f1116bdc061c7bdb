// SPDX-License-Identifier: Apache-2.0
//
// Model tests of the sharded inbox, within bounds, with segments of two cells: shards are
// registered while the consumer runs, and threads end before, after and while the inbox ends.
//
// Each of these mutations, tried by hand, makes a test fail: relaxed replaces the release or
// acquire of `abandoned_`, or the release of `next`; `holders_` lacks half of its acq_rel; the
// consumer looks for tasks before it asks whether the shard is abandoned; the inbox ends without
// admitting new shards; a thread ends without abandoning its shards; a segment ends without a mark
// where the next task does not fit. For segments and cells see fifo_model_test.cpp.
#include <gyre/exec/inbox/sharded.hpp>

#include <tests/model/inbox_scenario.hpp>
#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <optional>

namespace {

namespace model = gyre::model;
using model::post;
using model::receipts;
using model::run_until_received;

using small_sharded = gyre::inbox::basic_sharded<2>;

TEST(ShardedModel, TasksOfOneProducerRunOnceInOrderAcrossReusedSegments) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 1}, [] {
    small_sharded inbox;
    receipts received;
    {
      model::thread producer([&] {
        for (int id = 0; id < 6; ++id) post(inbox, received, id);
      });
      run_until_received(inbox, received, 6);
    }
    for (int id = 1; id < 6; ++id) model::assert_that(received.in_order(id - 1, id), "in order");
    model::assert_that(inbox.pending() == 0 && !inbox.ready(), "nothing is left");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(ShardedModel, ShardsArriveWhileTheConsumerRuns) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 1}, [] {
    small_sharded inbox;
    receipts received;
    {
      model::thread one([&] {
        post(inbox, received, 0);
        post(inbox, received, 1);
      });
      model::thread other([&] { post(inbox, received, 2); });
      run_until_received(inbox, received, 3);
    }
    model::assert_that(received.in_order(0, 1), "in the producer's order");
    model::assert_that(received.position_of(2) < 3, "the other producer's task ran");
    model::assert_that(inbox.pending() == 0 && !inbox.ready(), "nothing is left");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(ShardedModel, AProducersLastTasksRunAlthoughItsThreadHasEnded) {
  const auto checked = model::check({.preemptions = 3}, [] {
    small_sharded inbox;
    receipts received;
    model::thread producer([&] { post(inbox, received, 0); });
    gyre::inbox::batch some(2);
    inbox.run(some);  // may find the shard empty before it is abandoned
    producer.join();
    run_until_received(inbox, received, 1);
    model::assert_that(!inbox.ready() && inbox.pending() == 0, "nothing is left");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(ShardedModel, AThreadMayEndAfterTheInboxOrWhileItEnds) {
  const auto checked = model::check({.preemptions = 3}, [] {
    receipts received;
    std::optional<small_sharded> inbox(std::in_place);
    model::atomic<bool> posted{false};
    model::thread producer([&] {
      post(*inbox, received, 0);
      posted.store(true, std::memory_order_release);
      // From here to its end the thread only holds its shard.
    });
    while (!posted.load(std::memory_order_acquire)) model::yield();
    inbox.reset();
    producer.join();
    model::assert_that(received.count() == 0, "the task was destroyed, not run");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(ShardedModel, AThreadForgetsTheShardsOfInboxesThatHaveEnded) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 1}, [] {
    receipts received;
    std::optional<small_sharded> first(std::in_place);
    small_sharded second;
    model::atomic<bool> posted{false};
    model::thread producer([&] {
      post(*first, received, 0);
      posted.store(true, std::memory_order_release);
      post(second, received, 1);  // while the first inbox ends, or after
    });
    while (!posted.load(std::memory_order_acquire)) model::yield();
    first.reset();
    run_until_received(second, received, 1);
    producer.join();
    model::assert_that(received.position_of(1) == 0, "only the second inbox's task ran");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(ShardedModel, AnyThreadMayAskWhatIsPending) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 1}, [] {
    small_sharded inbox;
    receipts received;
    {
      model::thread producer([&] { post(inbox, received, 0); });
      model::thread onlooker(
          [&] { model::assert_that(inbox.pending() <= 1, "at most what was posted"); });
      run_until_received(inbox, received, 1);
      gyre::inbox::batch none(1);
      inbox.run(none);  // retires the shard once its thread has ended
    }
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(ShardedModel, LargeTasksRunInOrderAcrossReusedSegmentsThatTheyDoNotFill) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 1}, [] {
    model::run_large_tasks_in_order<gyre::inbox::basic_sharded<3>>();
  });
  EXPECT_TRUE(checked) << checked;
}

}  // namespace

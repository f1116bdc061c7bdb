// SPDX-License-Identifier: Apache-2.0
//
// Model tests of the fifo inbox, within bounds. Its segments have two cells, so that a few tasks
// suffice to install, link, retire and reuse segments.
//
// Each of these mutations, tried by hand, makes a test fail: relaxed replaces the acquire of either
// fetch_add, the release of the compare-exchange or of `next`, or any acquire or release in
// segment.hpp and task_cell.hpp; a reused segment keeps its `next`; a cell is not marked free when
// its task is taken; the tail of a new segment starts at cell 0 instead of 1; the condition under
// which a segment is installed lacks either half; a claim that does not fit leaves no end mark, or
// every overrunning claim leaves one; a reused segment keeps its mark; the atomics under a large
// callable are not constructed again; a segment is closed although no claim has gone beyond its
// end.
#include <gyre/exec/inbox/fifo.hpp>

#include <tests/model/inbox_scenario.hpp>
#include <tests/model/model.hpp>

#include <gtest/gtest.h>

namespace {

namespace model = gyre::model;
using model::post;
using model::post_large;
using model::receipts;
using model::run_until_received;

using small_fifo = gyre::inbox::basic_fifo<2>;
using odd_fifo = gyre::inbox::basic_fifo<3>;  // a second task of two cells does not fit a segment

TEST(FifoModel, TasksOfOneProducerRunOnceInOrderAcrossReusedSegments) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 2}, [] {
    small_fifo inbox;
    receipts received;
    model::thread producer([&] {
      for (int id = 0; id < 5; ++id) post(inbox, received, id);
    });
    run_until_received(inbox, received, 5);
    producer.join();
    for (int id = 1; id < 5; ++id) model::assert_that(received.in_order(id - 1, id), "in order");
    model::assert_that(inbox.pending() == 0 && !inbox.ready(), "nothing is left");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(FifoModel, ProducersThatFindASegmentFullInstallOneTogether) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 1}, [] {
    small_fifo inbox;
    receipts received;
    {
      const auto produce = [&](int first) {
        post(inbox, received, first);
        post(inbox, received, first + 1);
      };
      model::thread one([&] { produce(0); });
      model::thread other([&] { produce(2); });
      run_until_received(inbox, received, 4);
    }
    model::assert_that(received.in_order(0, 1) && received.in_order(2, 3), "in producers' order");
    model::assert_that(inbox.pending() == 0 && !inbox.ready(), "nothing is left");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(FifoModel, ProducersOverrunASegmentWhileItsPredecessorIsReused) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 0}, [] {
    small_fifo inbox;
    receipts received;
    {
      const auto produce = [&](int first) {
        for (int id = first; id < first + 3; ++id) post(inbox, received, id);
      };
      model::thread one([&] { produce(0); });
      model::thread other([&] { produce(3); });
      run_until_received(inbox, received, 6);
    }
    for (const int id : {1, 2, 4, 5}) {
      model::assert_that(received.in_order(id - 1, id), "in producers' order");
    }
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(FifoModel, AnOvertakenProducerClaimsInASegmentItHasNotSeenBefore) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 1}, [] {
    small_fifo inbox;
    receipts received;
    {
      model::thread fast([&] {
        for (int id = 0; id < 5; ++id) post(inbox, received, id);
      });
      model::thread slow([&] { post(inbox, received, 5); });
    }
    run_until_received(inbox, received, 6);
    for (int id = 1; id < 5; ++id) model::assert_that(received.in_order(id - 1, id), "in order");
    model::assert_that(received.position_of(5) < 6, "the overtaken task ran");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(FifoModel, APostThatHappensBeforeAnotherRunsFirst) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 2}, [] {
    small_fifo inbox;
    receipts received;
    model::atomic<bool> posted{false};
    bool is_later = false;
    {
      model::thread one([&] {
        post(inbox, received, 0);
        posted.store(true, std::memory_order_release);
      });
      model::thread other([&] {
        is_later = posted.load(std::memory_order_acquire);
        post(inbox, received, 1);
      });
      run_until_received(inbox, received, 2);
    }
    if (is_later) model::assert_that(received.in_order(0, 1), "the later post runs later");
  });
  EXPECT_TRUE(checked) << checked;
}

template <typename Inbox, typename Task>
void end_with_tasks_left() {
  receipts received;
  {
    Inbox inbox;
    {
      model::thread one([&] {
        inbox.push(Task(received, 0));
        inbox.push(Task(received, 1));
      });
      model::thread other([&] { inbox.push(Task(received, 2)); });
      gyre::inbox::batch some(1);
      inbox.run(some);
    }
    model::assert_that(inbox.pending() == 3 - received.count(), "the rest is pending");
  }
}

TEST(FifoModel, ItsEndDestroysWhatWasNotRun) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 1},
                                    end_with_tasks_left<small_fifo, model::receipt_task>);
  EXPECT_TRUE(checked) << checked;
}

TEST(FifoModel, LargeTasksRunInOrderAcrossReusedSegmentsThatTheyDoNotFill) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 1},
                                    [] { model::run_large_tasks_in_order<odd_fifo>(); });
  EXPECT_TRUE(checked) << checked;
}

TEST(FifoModel, ProducersOfDifferentSizesCloseASegmentOnce) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 1}, [] {
    odd_fifo inbox;
    receipts received;
    {
      model::thread one([&] {
        post_large(inbox, received, 0);
        post_large(inbox, received, 1);
      });
      model::thread other([&] {
        post(inbox, received, 2);
        post_large(inbox, received, 3);
      });
      run_until_received(inbox, received, 4);
    }
    model::assert_that(received.in_order(0, 1) && received.in_order(2, 3), "in producers' order");
    model::assert_that(inbox.pending() == 0 && !inbox.ready(), "nothing is left");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(FifoModel, ASegmentIsReusedWhileALargeTaskOverrunsIt) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 0}, [] {
    odd_fifo inbox;
    receipts received;
    {
      model::thread one([&] {
        for (int id = 0; id < 3; ++id) post_large(inbox, received, id);
      });
      model::thread other([&] {
        for (int id = 3; id < 6; ++id) post(inbox, received, id);
      });
      run_until_received(inbox, received, 6);
    }
    for (const int id : {1, 2, 4, 5}) {
      model::assert_that(received.in_order(id - 1, id), "in producers' order");
    }
    model::assert_that(inbox.pending() == 0, "each task was counted once");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(FifoModel, ItsEndDestroysLargeTasksThatWereNotRun) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 1},
                                    end_with_tasks_left<odd_fifo, model::large_receipt_task>);
  EXPECT_TRUE(checked) << checked;
}

TEST(FifoModel, AReusedSegmentShowsNoTraceOfTheTasksAndTheMarkThatItHeld) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 1}, [] {
    odd_fifo inbox;
    receipts received;
    for (int id = 0; id < 2; ++id) post_large(inbox, received, id);
    run_until_received(inbox, received, 2);
    // One task fills the second segment; two go where the first segment had one in two cells.
    for (int id = 2; id < 5; ++id) post(inbox, received, id);
    run_until_received(inbox, received, 5);
    {
      // One of them takes the cell that had the mark, the other one closes the segment.
      model::thread one([&] { post(inbox, received, 5); });
      model::thread other([&] { post(inbox, received, 6); });
      run_until_received(inbox, received, 7);
    }
    for (int id = 0; id < 7; ++id) model::assert_that(received.position_of(id) < 7, "it ran");
  });
  EXPECT_TRUE(checked) << checked;
}

}  // namespace

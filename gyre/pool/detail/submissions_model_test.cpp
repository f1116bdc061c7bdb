// SPDX-License-Identifier: Apache-2.0
//
// Model tests of a pool's submissions, within bounds, with segments of two cells: several workers
// take one shard after the other, workers sleep, and threads end with slots in stock. For segments
// and shards see fifo_model_test.cpp and sharded_model_test.cpp; for blocking,
// admission_model_test.cpp.
//
// Each of these mutations, tried by hand, makes a test fail: a worker puts its shard back without
// the lock, or does not look for tasks again; a worker asks whether a shard is abandoned after it
// has asked for tasks; a thread that ends does not release its stock; a task is counted after it
// was handed over.
#include <gyre/pool/detail/submissions.hpp>

#include <gyre/base/atomic.hpp>
#include <gyre/exec/detail/sleep_gate.hpp>
#include <gyre/exec/inbox/inbox.hpp>
#include <tests/model/inbox_scenario.hpp>
#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

namespace {

namespace model = gyre::model;
using gyre::detail::admission;
using gyre::inbox::batch;
using model::receipt_task;
using model::receipts;

using small_submissions = gyre::detail::basic_submissions<2>;

constexpr std::size_t stocks_of_one = 4;
constexpr std::size_t stocks_of_two = 512;
constexpr std::size_t stocks_of_three = 768;

void post(small_submissions& to, receipts& received, int id) {
  model::assert_that(to.try_push(receipt_task(received, id)), "there is a slot");
}

TEST(SubmissionsModel, TasksOfOneProducerRunOnceInOrderWhicheverWorkerTakesThem) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 0}, [] {
    small_submissions waiting(std::make_shared<admission>(stocks_of_one));
    receipts received;
    gyre::detail::atomic<int> ran{0};
    const auto work = [&] {
      while (ran.load(std::memory_order_relaxed) < 3) {
        batch some(2);
        waiting.run_some(some);
        if (some.ran() == 0) {
          model::yield();
        } else {
          ran.fetch_add(static_cast<int>(some.ran()), std::memory_order_release);
        }
      }
    };
    {
      model::thread producer([&] {
        for (int id = 0; id < 3; ++id) post(waiting, received, id);
      });
      model::thread other(work);
      work();
    }
    model::assert_that(ran.load(std::memory_order_acquire) == 3, "none runs twice");
    for (int id = 1; id < 3; ++id) model::assert_that(received.in_order(id - 1, id), "in order");
    model::assert_that(waiting.pending() == 0 && !waiting.ready(), "nothing is left");
    model::assert_that(waiting.pushed() == 3, "all were counted");
  });
  EXPECT_TRUE(checked) << checked;
}

// One of two workers runs one batch and then is busy for ever; the other sleeps when it finds no
// task. No task may wait while it sleeps.
struct workers {
  void submit() {
    model::assert_that(waiting.try_push([this] { finish_one(); }), "there is a slot");
    if (gate.claim_remote_wake_up()) wakeup.wake();
  }
  void work_once() {
    batch some(1);
    if (waiting.run_some(some) && gate.claim_remote_wake_up()) wakeup.wake();
  }
  void work_until_finished(int tasks) {
    while (finished.load(std::memory_order_acquire) < tasks) {
      batch some(1);
      waiting.run_some(some);
      if (some.ran() > 0) continue;
      gate.fall_asleep();
      if (!waiting.ready() && finished.load(std::memory_order_acquire) < tasks) wakeup.wait();
      gate.wake_up();
    }
  }
  void finish_one() {
    finished.fetch_add(1, std::memory_order_release);
    if (gate.claim_remote_wake_up()) wakeup.wake();
  }

  small_submissions waiting{std::make_shared<admission>(stocks_of_one)};
  gyre::detail::sleep_gate gate{false};
  gyre::detail::atomic<int> finished{0};
  model::event wakeup;
};

TEST(SubmissionsModel, NothingWaitsInAShardThatAWorkerHadWhenAnotherFellAsleep) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 1}, [] {
    workers two;
    {
      model::thread producer([&] {
        two.submit();
        two.submit();
      });
      model::thread busy([&] { two.work_once(); });
      two.work_until_finished(2);
    }
    model::assert_that(two.waiting.pending() == 0, "nothing is left");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(SubmissionsModel, SlotsOfThreadsThatEndComeBackInAnyOrder) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 1}, [] {
    const auto room = std::make_shared<admission>(stocks_of_three);
    receipts received;
    small_submissions waiting(room);
    {
      model::thread producer([&] {
        post(waiting, received, 0);
        post(waiting, received, 1);
      });
      model::thread submitter([&] { static_cast<void>(room->try_acquire()); });
      batch some(1);
      waiting.run_some(some);
    }
    model::assert_that(room->free_slots() == stocks_of_three - 2, "all but the tasks' own");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(SubmissionsModel, ExecutedTasksAreCounted) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 2}, [] {
    small_submissions waiting(std::make_shared<admission>(stocks_of_one));
    gyre::detail::atomic<unsigned> finished{0};
    {
      model::thread producer([&] {
        static_cast<void>(
            waiting.try_push([&] { finished.fetch_add(1, std::memory_order_release); }));
      });
      model::thread worker([&] {
        batch some(1);
        waiting.run_some(some);
      });
      const unsigned ran = finished.load(std::memory_order_acquire);
      model::assert_that(waiting.pushed() >= ran, "never less than what has run");
    }
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(SubmissionsModel, AThreadMayEndWhileTheyEnd) {
  const auto checked = model::check({.preemptions = 3, .stale_reads = 1}, [] {
    const auto room = std::make_shared<admission>(stocks_of_two);
    receipts received;
    std::optional<small_submissions> waiting(std::in_place, room);
    gyre::detail::atomic<bool> posted{false};
    model::thread producer([&] {
      post(*waiting, received, 0);
      posted.store(true, std::memory_order_release);
      // From here to its end the thread only holds its shard.
    });
    while (!posted.load(std::memory_order_acquire)) model::yield();
    waiting.reset();
    producer.join();
    model::assert_that(received.count() == 0, "the task was destroyed, not run");
    model::assert_that(room->free_slots() == stocks_of_two - 1, "the slot in stock is free again");
  });
  EXPECT_TRUE(checked) << checked;
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// InboxStressSuite: tests of every inbox with many threads, which each inbox instantiates.
#pragma once

#include <gyre/exec/inbox/inbox.hpp>
#include <gyre/exec/inbox/inbox_test_support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <optional>
#include <semaphore>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <vector>

namespace gyre::inbox::suite {

/// The consumer's record of the tasks that have run: each producer's tasks in order, none twice.
class ledger {
 public:
  explicit ledger(std::size_t producers) : next_(producers, 0) {}

  void enter(std::size_t producer, int number) {
    EXPECT_EQ(number, next_[producer])
        << "lost, duplicated or out of producer " << producer << "'s order";
    next_[producer] = number + 1;
    // relaxed: a count that orders nothing.
    entered_.store(entered() + 1, std::memory_order_relaxed);
  }
  /// Any thread.
  std::size_t entered() const { return entered_.load(std::memory_order_relaxed); }
  const std::vector<int>& next() const { return next_; }

 private:
  std::vector<int> next_;
  std::atomic<std::size_t> entered_{0};
};

/// Posts task `number` of `producer`: mostly small, some large.
template <class Inbox>
void post(Inbox& inbox, ledger& book, std::size_t producer, int number) {
  const auto enter = [&book, producer = static_cast<std::uint32_t>(producer), number] {
    book.enter(producer, number);
  };
  static_assert(sizeof(enter) == 16);
  if (number % 5 == 3) {
    std::array<int, 30> filling;
    filling.fill(number);
    inbox.push([enter, number, filling] {
      EXPECT_THAT(filling, ::testing::Each(number));
      enter();
    });
  } else {
    inbox.push(enter);
  }
}

/// Runs tasks in batches of changing size until `count` have been entered.
template <class Inbox>
void run_until(Inbox& inbox, const ledger& book, std::size_t count) {
  for (std::size_t size = 1; book.entered() < count; size = size % 61 + 1) {
    if (run(inbox, size) == 0) std::this_thread::yield();
  }
}

template <class Inbox>
class InboxStressSuite : public ::testing::Test {};
TYPED_TEST_SUITE_P(InboxStressSuite);

TYPED_TEST_P(InboxStressSuite, NothingIsLostDuplicatedOrOvertakenByItsOwnThreadsTasks) {
  constexpr std::size_t producers = 4;
  constexpr int tasks = 3000;
  constexpr std::size_t window = 500;  // keeps the queue, and so the memory, short
  TypeParam inbox;
  ledger book(producers);
  std::atomic<std::size_t> posted{0};
  std::vector<std::jthread> threads;
  for (std::size_t producer = 0; producer < producers; ++producer) {
    threads.emplace_back([&, producer] {
      for (int i = 0; i < tasks; ++i) {
        while (posted.load(std::memory_order_relaxed) > book.entered() + window) {
          std::this_thread::yield();
        }
        post(inbox, book, producer, i);
        posted.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  // Calls of pending() must disturb nothing.
  std::jthread onlooker([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      static_cast<void>(inbox.pending());
      std::this_thread::yield();
    }
  });
  run_until(inbox, book, producers * tasks);
  threads.clear();
  EXPECT_EQ(book.next(), std::vector<int>(producers, tasks));
  EXPECT_EQ(run(inbox), 0U);
  EXPECT_FALSE(inbox.ready());
  EXPECT_EQ(inbox.pending(), 0U);
}

TYPED_TEST_P(InboxStressSuite, APostThatHappensBeforeAnotherThreadsRunsFirst) {
  if constexpr (TypeParam::order != ordering::total) {
    GTEST_SKIP() << "this inbox orders the tasks of each producer only";
  } else {
    constexpr std::size_t producers = 3;
    constexpr int tasks = 1500;
    TypeParam inbox;
    ledger book(1);
    // A token circulates; its holder posts a few tasks and passes it on.
    int next = 0;
    std::array<std::binary_semaphore, producers> baton{
        std::binary_semaphore{1}, std::binary_semaphore{0}, std::binary_semaphore{0}};
    std::vector<std::jthread> threads;
    for (std::size_t producer = 0; producer < producers; ++producer) {
      threads.emplace_back([&, producer] {
        for (int burst = 1;; burst = burst % 4 + 1) {
          baton[producer].acquire();
          for (int i = 0; i < burst && next < tasks; ++i) post(inbox, book, 0, next++);
          const bool finished = next == tasks;
          baton[(producer + 1) % producers].release();
          if (finished) return;
        }
      });
    }
    run_until(inbox, book, tasks);
    EXPECT_EQ(book.next().front(), tasks);
  }
}

TYPED_TEST_P(InboxStressSuite, ThreadsComeAndGoWhileTheLoopRuns) {
  constexpr std::size_t generations = 60;
  constexpr int tasks = 30;
  TypeParam inbox;
  ledger book(2 * generations);
  const auto come_and_go = [&](std::size_t first) {
    for (std::size_t i = 0; i < generations; ++i) {
      std::thread([&, producer = first + i] {
        for (int number = 0; number < tasks; ++number) post(inbox, book, producer, number);
      }).join();
    }
  };
  {
    std::jthread one(come_and_go, 0);
    std::jthread other(come_and_go, generations);
    run_until(inbox, book, 2 * generations * tasks);
  }
  EXPECT_EQ(book.next(), std::vector<int>(2 * generations, tasks));
  EXPECT_EQ(run(inbox), 0U);
}

TYPED_TEST_P(InboxStressSuite, TasksThatThrowAndPostLoseNothing) {
  constexpr int producers = 3;
  constexpr int tasks = 1000;
  TypeParam inbox;
  fates told;
  int posted_by_tasks = 0;
  std::vector<std::jthread> threads;
  for (int producer = 0; producer < producers; ++producer) {
    threads.emplace_back([&] {
      for (int i = 0; i < tasks; ++i) {
        inbox.push([&, i = static_cast<short>(i), held = witness(told)]() mutable {
          held.ran();
          if (i % 3 == 0) {
            inbox.push(sized_task<40>(told));
            ++posted_by_tasks;
          }
          if (i % 7 == 0) throw std::runtime_error("a task's own");
        });
      }
    });
  }
  int thrown = 0;
  const int per_producer = tasks + (tasks + 2) / 3;
  while (told.run < producers * per_producer) {
    try {
      if (run(inbox, 100) == 0) std::this_thread::yield();
    } catch (const std::runtime_error&) {
      ++thrown;
    }
  }
  EXPECT_EQ(thrown, producers * ((tasks + 6) / 7));
  EXPECT_EQ(posted_by_tasks, producers * ((tasks + 2) / 3));
  EXPECT_EQ(told.destroyed, told.run);
  EXPECT_EQ(run(inbox), 0U);
}

TYPED_TEST_P(InboxStressSuite, ItEndsBeforeTheThreadsThatPostedToIt) {
  for (int round = 0; round < 20; ++round) {
    constexpr int producers = 3;
    fates told;
    std::optional<TypeParam> inbox(std::in_place);
    std::latch posted(producers);
    std::latch ended(1);
    std::vector<std::jthread> threads;
    for (int producer = 0; producer < producers; ++producer) {
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i) inbox->push(sized_task<16>(told));
        inbox->push(sized_task<100>(told));
        posted.count_down();
        ended.wait();
      });
    }
    const std::size_t ran = run(*inbox, 20);
    posted.wait();
    inbox.reset();
    EXPECT_EQ(told.run, static_cast<int>(ran));
    EXPECT_EQ(told.destroyed, producers * 51);
    ended.count_down();
  }
}

TYPED_TEST_P(InboxStressSuite, TasksOfEndedThreadsStillRun) {
  constexpr std::size_t producers = 8;
  constexpr int tasks = 300;
  TypeParam inbox;
  ledger book(producers);
  for (std::size_t producer = 0; producer < producers; ++producer) {
    std::thread([&] {
      for (int i = 0; i < tasks; ++i) post(inbox, book, producer, i);
    }).join();
  }
  expect_pending(inbox, producers * tasks);
  run_until(inbox, book, producers * tasks);
  EXPECT_EQ(book.next(), std::vector<int>(producers, tasks));
}

REGISTER_TYPED_TEST_SUITE_P(InboxStressSuite,
                            NothingIsLostDuplicatedOrOvertakenByItsOwnThreadsTasks,
                            APostThatHappensBeforeAnotherThreadsRunsFirst,
                            ThreadsComeAndGoWhileTheLoopRuns, TasksThatThrowAndPostLoseNothing,
                            ItEndsBeforeTheThreadsThatPostedToIt, TasksOfEndedThreadsStillRun);

}  // namespace gyre::inbox::suite

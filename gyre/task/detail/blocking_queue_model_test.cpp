// SPDX-License-Identifier: Apache-2.0
// Model tests of the queue of a thread that waits for coroutines: no operation and no wake-up is
// lost, nothing touches the queue once its last operation was handed over, and no needless system
// call is made.
//
// Mutations, tried by hand one at a time, and the tests that fail:
//   push() is relaxed, does not wake, stores in place of the compare-exchange, or takes the
//     sleeper's mark for an operation; take() exchanges relaxed; sleep() stores in place of the
//     compare-exchange, or waits without marking: all but PushBeforeTheOwnerLooks…
//   push() always calls the futex: MakesOne…, PushBeforeTheOwnerLooks…
//   push() reads the queue again to decide whether to wake: MayBeDestroyed…
//   take() stores zero in place of the exchange: Nothing…, OperationsOfOne…, MayBeDestroyed…,
//     MakesOne…
//   take() keeps the newest first: OperationsOfOne…
//   sleep() waits once: all but OnePush… and PushBeforeTheOwnerLooks…
#include <gyre/task/detail/blocking_executor.hpp>

#include <gyre/base/atomic.hpp>
#include <gyre/base/intrusive_queue.hpp>
#include <gyre/base/operation.hpp>
#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace {

namespace model = gyre::model;

constexpr auto relaxed = std::memory_order_relaxed;

// futex(2), for one sleeper: checks the word and sleeps in one step, as seen by wakers, which know
// the word by its address alone.
struct model_futex {
  static void wait(const gyre::detail::atomic<std::uintptr_t>& word, std::uintptr_t expected) {
    ++waits;
    {
      const std::lock_guard bucket(kernel);
      if (word.load(relaxed) != expected) return;
      sleeps_on = &word;
    }
    bed.wait();
  }
  static void wake_one(const gyre::detail::atomic<std::uintptr_t>* word) {
    const std::lock_guard bucket(kernel);
    ++wakes;
    if (sleeps_on == word) get_up();
  }
  // A signal handler runs on the sleeper's thread.
  static void interrupt() {
    const std::lock_guard bucket(kernel);
    if (sleeps_on != nullptr) get_up();
  }

  static inline int waits = 0;
  static inline int wakes = 0;

 private:
  static void get_up() {
    sleeps_on = nullptr;
    bed.wake();
  }

  static inline std::mutex kernel;
  static inline const void* sleeps_on = nullptr;
  static inline model::event bed;
};

using queue = gyre::detail::basic_blocking_queue<model_futex>;

// Reads, when it runs, the value that its poster wrote before.
struct message : gyre::operation {
  message()
      : operation([](operation& self) {
          auto& own = static_cast<message&>(self);
          model::assert_that(own.sent != 0, "what came before the post is visible");
          ++own.runs;
        }) {}
  void post_to(queue& to, int number) {
    sent = number;
    to.push(*this);
  }
  int sent = 0;
  int runs = 0;
};

// Runs operations like blocking_executor::run_until(), until `operations` of them have run.
void run(queue& from, std::size_t operations) {
  while (operations > 0) {
    gyre::intrusive_queue<gyre::operation> ready = from.take();
    if (ready.empty()) from.sleep();
    for (; gyre::operation* next = ready.pop_front(); --operations) next->execute();
  }
}

TEST(BlockingQueueModel, OnePushBeforeOrDuringTheSleepEndsIt) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    queue waits;
    message one;
    model::thread poster([&] { one.post_to(waits, 1); });
    run(waits, 1);
    model::assert_that(one.runs == 1, "it ran once");
    poster.join();
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

TEST(BlockingQueueModel, NothingOfTwoThreadsIsLost) {
  const auto checked = model::check({.preemptions = 3}, [] {
    queue waits;
    std::array<message, 2> sent;
    {
      model::thread one([&] { sent[0].post_to(waits, 1); });
      model::thread other([&] { sent[1].post_to(waits, 2); });
      run(waits, 2);
    }
    model::assert_that(sent[0].runs == 1 && sent[1].runs == 1, "each ran once");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(BlockingQueueModel, OperationsOfOneThreadRunInTheirOrder) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    queue waits;
    std::array<message, 2> sent;
    model::thread poster([&] {
      sent[0].post_to(waits, 1);
      sent[1].post_to(waits, 2);
    });
    for (std::size_t seen = 0; seen < 2;) {
      gyre::intrusive_queue<gyre::operation> ready = waits.take();
      if (ready.empty()) waits.sleep();
      for (; gyre::operation* next = ready.pop_front(); ++seen) {
        model::assert_that(next == &sent[seen], "the oldest first");
        next->execute();
      }
    }
    poster.join();
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

TEST(BlockingQueueModel, MayBeDestroyedOnceTheLastOperationHasRun) {
  const auto checked = model::check({.preemptions = 3}, [] {
    auto waits = std::make_unique<queue>();
    std::array<message, 2> sent;
    model::thread one([&, to = waits.get()] { sent[0].post_to(*to, 1); });
    model::thread other([&, to = waits.get()] { sent[1].post_to(*to, 2); });
    run(*waits, 2);
    waits.reset();
    one.join();
    other.join();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(BlockingQueueModel, MakesOneWakeUpCallPerSleepAtMost) {
  const auto checked = model::check({.preemptions = 3}, [] {
    queue waits;
    std::array<message, 2> sent;
    int sleeps = 0;
    {
      model::thread one([&] { sent[0].post_to(waits, 1); });
      model::thread other([&] { sent[1].post_to(waits, 2); });
      for (std::size_t left = 2; left > 0;) {
        gyre::intrusive_queue<gyre::operation> ready = waits.take();
        if (ready.empty()) {
          ++sleeps;
          waits.sleep();
        }
        for (; gyre::operation* next = ready.pop_front(); --left) next->execute();
      }
    }
    model::assert_that(model_futex::wakes <= sleeps, "one wake-up per sleep at most");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(BlockingQueueModel, PushBeforeTheOwnerLooksCostsNoSystemCall) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    queue waits;
    message one;
    model::thread poster([&] { one.post_to(waits, 1); });
    poster.join();
    run(waits, 1);
    model::assert_that(model_futex::waits == 0 && model_futex::wakes == 0, "no system call");
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

TEST(BlockingQueueModel, NoWakeUpIsLostToASignal) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    queue waits;
    message one;
    {
      model::thread poster([&] { one.post_to(waits, 1); });
      model::thread signal([] { model_futex::interrupt(); });
      run(waits, 1);
    }
    model::assert_that(one.runs == 1, "it ran once");
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

}  // namespace

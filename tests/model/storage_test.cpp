// SPDX-License-Identifier: Apache-2.0
//
// Tests that thread-local and static variables behave in a scenario as in a new process.
#include <tests/model/model.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

namespace {

namespace model = gyre::model;
using model::check;

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;

thread_local int calls_of_thread = 0;

TEST(Storage, ThreadLocalsBelongToOneThreadAndStartFresh) {
  const auto found = check({}, [] {
    model::atomic<int*> shared{nullptr};
    model::thread other([&] {
      model::assert_that(calls_of_thread == 0, "fresh");
      ++calls_of_thread;
      model::assert_that(calls_of_thread == 1, "its own");
      shared.store(&calls_of_thread, release);
    });
    ++calls_of_thread;
    if (const int* others = shared.load(acquire)) {
      model::assert_that(others != &calls_of_thread, "at an address of its own");
    }
    other.join();
    model::assert_that(calls_of_thread == 1, "untouched by the other");
  });
  EXPECT_TRUE(found) << found;
}

TEST(Storage, ThreadLocalsAreDestroyedWhenTheirThreadEnds) {
  struct counts_out {
    model::atomic<int>* ended = nullptr;
    ~counts_out() {
      if (ended != nullptr) ended->fetch_add(1, release);
    }
  };
  const auto found = check({}, [] {
    model::atomic<int> ended{0};
    model::thread other([&] {
      static thread_local counts_out local;
      local.ended = &ended;
    });
    other.join();
    model::assert_that(ended.load(relaxed) == 1, "destroyed before join returns");
  });
  EXPECT_TRUE(found) << found;
}

TEST(Storage, StaticsStartFreshInEverySchedule) {
  const auto found = check({}, [] {
    static int runs = 0;
    static model::atomic<int> started{0};
    ++runs;
    model::thread other([&] { started.fetch_add(1); });
    started.fetch_add(1);
    other.join();
    model::assert_that(runs == 1 && started.load() == 2, "as if the program had just started");
  });
  EXPECT_TRUE(found) << found;
}

}  // namespace

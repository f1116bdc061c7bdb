// SPDX-License-Identifier: Apache-2.0
//
// Model tests of the lock-free stack, under every schedule and every value that the memory model
// lets a load return.
#include <gyre/base/intrusive_stack.hpp>
#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <array>

namespace {

namespace model = gyre::model;

struct item : gyre::intrusive_node {
  int number = 0;
};

TEST(AtomicIntrusiveStackModel, EveryElementArrivesOnceInItsProducersOrder) {
  const auto checked = model::check({}, [] {
    gyre::atomic_intrusive_stack<item> stack;
    std::array<item, 3> items;
    int firsts = 0;
    int last = 0;
    int received = 0;
    const auto receive = [&] {
      auto batch = stack.pop_all();
      if (!batch.empty()) ++firsts;
      while (const item* got = batch.pop_front()) {
        ++received;
        if (got->number == 3) continue;  // pushed by the other producer
        model::assert_that(got->number == ++last, "in the order of the pushes");
      }
    };
    model::atomic<int> told{0};
    const auto push = [&](std::size_t index) {
      items[index].number = static_cast<int>(index) + 1;
      if (stack.push(items[index])) told.fetch_add(1, std::memory_order_relaxed);
    };
    {
      model::thread one{[&] {
        push(0);
        push(1);
      }};
      model::thread other{[&] { push(2); }};
      receive();
      receive();
    }
    receive();
    model::assert_that(received == 3, "every element arrived");
    model::assert_that(told.load(std::memory_order_relaxed) == firsts,
                       "one push per batch was told to be the first");
  });
  EXPECT_TRUE(checked) << checked;
}

// A consumer that posts itself, as the queue of a loop's releases: the push that finds the stack
// empty posts the consumer again, behind all that the consumer did before it emptied the stack.
TEST(AtomicIntrusiveStackModel, APushThatFindsItEmptyComesBehindTheConsumersWork) {
  const auto checked = model::check({}, [] {
    gyre::atomic_intrusive_stack<item> stack;
    std::array<item, 2> items;
    int consumers_link = 0;
    stack.push(items[0]);
    model::thread producer{[&] {
      if (stack.push(items[1])) consumers_link = 2;
    }};
    consumers_link = 1;
    static_cast<void>(stack.pop_all());
  });
  EXPECT_TRUE(checked) << checked;
}

}  // namespace

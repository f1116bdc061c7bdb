// SPDX-License-Identifier: Apache-2.0
//
// Tests that the checker finds data races, and uses of memory before and after its lifetime.
#include <tests/model/model.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>

namespace {

namespace model = gyre::model;
using model::check;
using testing::HasSubstr;

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;
constexpr auto acq_rel = std::memory_order_acq_rel;

auto publish_plain_data(std::memory_order publish, std::memory_order receive) {
  return check({}, [=] {
    model::atomic<bool> ready{false};
    int data = 0;
    model::thread writer([&] {
      data = 1;
      ready.store(true, publish);
    });
    if (ready.load(receive)) model::assert_that(data == 1, "data arrived");
    writer.join();
  });
}

TEST(Races, TooWeakAnOrderLeavesPlainDataUnordered) {
  const auto right = publish_plain_data(release, acquire);
  EXPECT_TRUE(right) << right;
  EXPECT_THAT(publish_plain_data(relaxed, acquire).failure, HasSubstr("data race"));
  EXPECT_THAT(publish_plain_data(release, relaxed).failure, HasSubstr("data race"));
}

TEST(Races, AreToldWithTheirLinesOfSource) {
  EXPECT_THAT(publish_plain_data(relaxed, acquire).story, HasSubstr("lifetime_test.cpp:"));
}

TEST(Races, PublishedAtomicsMustBeConstructedBefore) {
  struct node {
    model::atomic<int> value{7};
  };
  const auto publish = [](std::memory_order order) {
    return check({}, [=] {
      model::atomic<node*> shared{nullptr};
      model::thread writer([&] { shared.store(new node, order); });
      if (const node* seen = shared.load(acquire)) {
        model::assert_that(seen->value.load(relaxed) == 7, "the node is whole");
      }
      writer.join();
      delete shared.load(relaxed);
    });
  };
  const auto right = publish(release);
  EXPECT_TRUE(right) << right;
  EXPECT_FALSE(publish(relaxed));
}

TEST(Lifetimes, UseAfterFreeIsFound) {
  const auto found = check({}, [] {
    auto* value = new int{1};
    model::atomic<bool> done{false};
    model::thread reader([&] {
      static_cast<void>(*static_cast<volatile int*>(value));
      done.store(true, relaxed);
    });
    while (!done.load(relaxed)) model::yield();
    delete value;
    reader.join();
  });
  EXPECT_THAT(found.failure, HasSubstr("data race")) << "although no schedule reads it freed";
}

TEST(Lifetimes, LeaksOverrunsAndDoubleDeletesAreFound) {
  // Volatile, so that the compiler keeps the errors.
  using pointer = volatile char* volatile;
  const auto leak = [] { [[maybe_unused]] pointer lost = new char[24]; };
  EXPECT_THAT(check({}, leak).failure, HasSubstr("leak"));
  EXPECT_TRUE(check({.leaks_fail = false}, leak));
  EXPECT_THAT(check({},
                    [] {
                      pointer bytes = new char[16];
                      bytes[16] = 1;
                      delete[] bytes;
                    })
                  .failure,
              HasSubstr("outside of any block"));
  EXPECT_THAT(check({},
                    [] {
                      pointer first = new char[16];
                      pointer second = first;
                      delete[] first;
                      delete[] second;
                    })
                  .failure,
              HasSubstr("double delete"));
}

TEST(Lifetimes, CrashesAreFailures) {
  const auto found = check({}, [] {
    volatile int* volatile nowhere = nullptr;
    *nowhere = 1;
  });
  EXPECT_THAT(found.failure, HasSubstr("Segmentation fault"));
}

// The textbook stack: pop reads the successor of a node that may be freed, or pushed again.
class naive_stack {
 public:
  struct node {
    node* next = nullptr;
  };
  void push(node* pushed) {
    node* top = top_.load(relaxed);
    do {
      pushed->next = top;
    } while (!top_.compare_exchange_weak(top, pushed, acq_rel, acquire));
  }
  node* pop() {
    node* top = top_.load(acquire);
    while (top != nullptr) {
      node* next = top->next;
      if (top_.compare_exchange_weak(top, next, acq_rel, acquire)) break;
    }
    return top;
  }

 private:
  model::atomic<node*> top_{nullptr};
};

TEST(Lifetimes, TheNaiveStackReadsFreedNodes) {
  const auto found = check({}, [] {
    naive_stack stack;
    stack.push(new naive_stack::node);
    const auto take = [&] { delete stack.pop(); };
    model::thread other(take);
    take();
    other.join();
  });
  EXPECT_FALSE(found);
  EXPECT_FALSE(found.failure.empty());
}

// A naive stack with atomic links and nodes that are never freed: ABA remains.
TEST(Lifetimes, TheNaiveStackTakesANodeTwiceByAba) {
  struct node {
    model::atomic<node*> next{nullptr};
    model::atomic<int> owners{0};
  };
  const auto found = check({}, [] {
    node nodes[2];
    model::atomic<node*> top{nullptr};
    const auto push = [&](node& pushed) {
      node* expected = top.load();
      do {
        pushed.next.store(expected);
      } while (!top.compare_exchange_strong(expected, &pushed));
    };
    const auto pop = [&] {
      node* taken = top.load();
      while (taken != nullptr && !top.compare_exchange_strong(taken, taken->next.load())) {
      }
      if (taken != nullptr) {
        model::assert_that(taken->owners.fetch_add(1) == 0, "a node has one owner");
      }
      return taken;
    };
    push(nodes[0]);
    push(nodes[1]);
    model::thread other([&] {
      node* first = pop();
      node* second = pop();
      if (first != nullptr && second != nullptr) {
        first->owners.fetch_sub(1);
        push(*first);
      }
    });
    pop();
    pop();
    other.join();
  });
  EXPECT_THAT(found.failure, HasSubstr("a node has one owner")) << found;
}

}  // namespace

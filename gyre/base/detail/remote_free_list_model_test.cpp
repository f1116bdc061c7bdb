// SPDX-License-Identifier: Apache-2.0
//
// Model tests of the remote free list and of a heap's change of owner, under every schedule and
// every value that the memory model lets a load return.
#include <gyre/base/detail/remote_free_list.hpp>
#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <array>

namespace {

namespace model = gyre::model;

struct node {
  node* next = nullptr;
  bool written = false;  // by the last user, not atomic: the thread that takes the node must see it
};

// Replaces a heap: only the owner of the list may touch it, and without atomics.
struct heap {
  gyre::detail::remote_free_list<node> list;
  int home = 0;

  void take_home(node* taken) {
    model::assert_that(taken->written, "what the last user wrote is seen");
    ++home;
  }
  void drain() {
    for (node* each = list.take_all(); each != nullptr;) {
      node* next = each->next;
      take_home(each);
      each = next;
    }
  }
  void leave() {
    while (!list.try_abandon()) drain();
  }
  // A thread that frees a block of this heap.
  void give_back(node& freed) {
    freed.written = true;
    if (!list.push_or_claim(&freed)) return;
    take_home(&freed);
    leave();
  }
};

TEST(RemoteFreeListModel, OwnerThatLeavesMissesNoNode) {
  const auto checked = model::check({}, [] {
    heap shared;
    std::array<node, 2> nodes;
    model::assert_that(shared.list.try_claim(), "a new heap has no owner");
    {
      model::thread first{[&] { shared.give_back(nodes[0]); }};
      model::thread second{[&] { shared.give_back(nodes[1]); }};
      shared.drain();
      shared.leave();
    }
    model::assert_that(shared.list.try_claim(), "in the end nobody owns it");
    model::assert_that(shared.home == 2, "every node came home once");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(RemoteFreeListModel, NodesComeHomeToAHeapWithoutOwner) {
  const auto checked = model::check({}, [] {
    heap shared;
    std::array<node, 3> nodes;
    {
      model::thread first{[&] { shared.give_back(nodes[0]); }};
      model::thread second{[&] { shared.give_back(nodes[1]); }};
      shared.give_back(nodes[2]);
    }
    model::assert_that(shared.list.try_claim(), "in the end nobody owns it");
    model::assert_that(shared.home == 3, "every node came home once");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(RemoteFreeListModel, OneOfTwoThreadsAdoptsAHeap) {
  const auto checked = model::check({}, [] {
    heap shared;
    node freed;
    const auto adopt = [&] {
      if (!shared.list.try_claim()) return;
      ++shared.home;  // a data race if both were owners
      --shared.home;
      shared.leave();
    };
    {
      model::thread first{adopt};
      model::thread second{adopt};
      shared.give_back(freed);
    }
    model::assert_that(shared.list.try_claim(), "in the end nobody owns it");
    model::assert_that(shared.home == 1, "the node came home once");
  });
  EXPECT_TRUE(checked) << checked;
}

}  // namespace

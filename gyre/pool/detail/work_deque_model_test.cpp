// SPDX-License-Identifier: Apache-2.0
//
// Model tests of the deque, within bounds. Its first block has two elements, so that the deque soon
// wraps round, grows and is stolen from. Each element points to plain memory that its pusher wrote
// and its taker writes: an element taken twice, or seen too early, is a data race.
//
// Each of these mutations, tried by hand, makes a test fail: the light or the heavy fence is
// omitted; relaxed replaces any release or acquire; the owner makes room, takes a contended
// element, or concludes that the deque is empty, without the lock; a thief does not lower the top
// again, makes room in its own deque while it holds the other deque's lock, or does without a fence
// after another thief; the owner does not fence while thieves rely on it, or goes back to light
// fences without the lock.
#include <gyre/pool/detail/work_deque.hpp>

#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>

namespace {

namespace model = gyre::model;

struct item {
  int made = 0;
  int taken = 0;
};
template <std::size_t Count, std::size_t InitialCapacity = 2, unsigned QuietFences = 256>
struct scenario {
  using deque = gyre::detail::work_deque<item*, InitialCapacity, QuietFences>;

  void push(std::size_t at) {
    items[at].made = 1;
    model::assert_that(own.push(&items[at]), "there is memory");
  }
  static bool take(item* taken) {
    if (taken == nullptr) return false;
    model::assert_that(taken->made == 1 && ++taken->taken == 1, "taken once, as it was pushed");
    return true;
  }
  static void take_all(deque& from) {
    while (take(from.pop())) {
    }
  }
  void rob() {
    deque loot;
    take(own.steal_into(loot));
    take_all(loot);
  }
  // The owner's last look has found nothing, so every element must have been taken.
  void check_all_taken() {
    model::assert_that(own.size() == 0, "none was overlooked");
    for (const item& each : items) model::assert_that(each.taken == 1, "each was taken");
  }

  std::array<item, Count> items;
  deque own;
};

TEST(WorkDequeModel, TheLastElementGoesToTheOwnerOrToTheThief) {
  const auto checked = model::check({.preemptions = model::unlimited}, [] {
    scenario<1> world;
    {
      model::thread thief([&] { world.rob(); });
      world.push(0);
      world.take_all(world.own);
    }
    world.check_all_taken();
  });
  EXPECT_TRUE(checked) << checked;
  EXPECT_TRUE(checked.exhaustive);
}

TEST(WorkDequeModel, EachElementIsTakenOnceWhileTheOwnerPushesPopsAndGrows) {
  const auto checked = model::check({.preemptions = 3}, [] {
    scenario<4> world;
    {
      model::thread thief([&] { world.rob(); });
      world.push(0);
      world.push(1);
      world.take(world.own.pop());
      world.push(2);
      world.push(3);
      world.take_all(world.own);
    }
    world.check_all_taken();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(WorkDequeModel, AThiefTakesSeveralWhileTheOwnerPopsThemAll) {
  const auto checked = model::check({.preemptions = 3}, [] {
    scenario<4> world;
    for (std::size_t at = 0; at < 4; ++at) world.push(at);
    {
      model::thread thief([&] { world.rob(); });
      world.take_all(world.own);
    }
    world.check_all_taken();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(WorkDequeModel, TheOwnerReusesSlotsOnlyWhenTheThiefHasCopiedThem) {
  const auto checked = model::check({.preemptions = 3}, [] {
    scenario<6> world;
    world.push(0);
    world.push(1);
    {
      model::thread thief([&] { world.rob(); });
      for (std::size_t at = 2; at < 6; ++at) {
        world.take(world.own.pop());
        world.push(at);
      }
      world.take_all(world.own);
    }
    world.check_all_taken();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(WorkDequeModel, TwoThievesTakeDifferentElements) {
  const auto checked = model::check({.preemptions = 2}, [] {
    scenario<3> world;
    world.push(0);
    world.push(1);
    {
      model::thread one([&] { world.rob(); });
      model::thread other([&] { world.rob(); });
      world.take(world.own.pop());
      world.push(2);
      world.take_all(world.own);
    }
    world.check_all_taken();
  });
  EXPECT_TRUE(checked) << checked;
}

// The owner goes from light fences to full ones and back, between two thieves.
TEST(WorkDequeModel, TheOwnerFencesAsTheThievesRelyOn) {
  const auto checked = model::check({.preemptions = 2}, [] {
    scenario<3, 4, 1> world;
    for (std::size_t at = 0; at < 3; ++at) world.push(at);
    {
      model::thread one([&] { world.take(world.own.steal_oldest()); });
      model::thread other([&] { world.take(world.own.steal_oldest()); });
      world.take_all(world.own);
    }
    world.check_all_taken();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(WorkDequeModel, AnElementIsTakenBackOrStolen) {
  const auto checked = model::check({.preemptions = 3}, [] {
    scenario<2> world;
    {
      model::thread thief([&] { world.rob(); });
      world.push(0);
      world.push(1);
      model::assert_that(!world.own.pop_if(&world.items[0]),
                         "another lies above it, or it is gone");
      for (item* each : {&world.items[1], &world.items[0]}) {
        if (world.own.pop_if(each)) world.take(each);
      }
    }
    world.check_all_taken();
  });
  EXPECT_TRUE(checked) << checked;
}

// Each worker has a full deque and needs room for the elements that it steals: neither may wait for
// the other.
TEST(WorkDequeModel, WorkersMayRobEachOther) {
  const auto checked = model::check({.preemptions = 2, .stale_reads = 2}, [] {
    using worker = scenario<4, 4>;
    worker one;
    worker other;
    for (std::size_t at = 0; at < 4; ++at) {
      one.push(at);
      other.push(at);
    }
    const auto work = [](worker& mine, worker& others) {
      worker::take(others.own.steal_into(mine.own));
      worker::take_all(mine.own);
    };
    {
      model::thread beside([&] { work(other, one); });
      work(one, other);
    }
    one.check_all_taken();
    other.check_all_taken();
  });
  EXPECT_TRUE(checked) << checked;
}

}  // namespace

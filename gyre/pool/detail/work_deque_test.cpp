// SPDX-License-Identifier: Apache-2.0
// Tests of the deque on real processors, in long runs. Its model test shows that no interleaving
// loses or duplicates an element.
#include <gyre/pool/detail/work_deque.hpp>

#include <gyre/base/fence.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace work_deque_test {
namespace {

using testing::Each;
using testing::ElementsAre;
using deque = gyre::detail::work_deque<std::uintptr_t, 16>;

void push_all(deque& to, std::uintptr_t first, std::uintptr_t last) {
  for (std::uintptr_t each = first; each <= last; ++each) ASSERT_TRUE(to.push(each));
}

std::vector<std::uintptr_t> pop_all(deque& from) {
  std::vector<std::uintptr_t> popped;
  while (const std::uintptr_t each = from.pop()) popped.push_back(each);
  return popped;
}

TEST(WorkDeque, GivesItsOwnerTheNewestFirst) {
  deque own;
  push_all(own, 1, 3);
  EXPECT_EQ(own.size(), 3);
  EXPECT_THAT(pop_all(own), ElementsAre(3, 2, 1));
  EXPECT_EQ(own.size(), 0);
  EXPECT_EQ(own.pop(), 0);
}

TEST(WorkDeque, GivesThievesTheOldestHalf) {
  deque victim;
  deque loot;
  push_all(victim, 1, 7);
  EXPECT_EQ(victim.steal_into(loot), 1);
  EXPECT_THAT(pop_all(loot), ElementsAre(2, 3, 4));
  EXPECT_THAT(pop_all(victim), ElementsAre(7, 6, 5));
}

TEST(WorkDeque, GivesAThiefTheOnlyElement) {
  deque victim;
  deque loot;
  push_all(victim, 1, 1);
  EXPECT_EQ(victim.steal_into(loot), 1);
  EXPECT_EQ(loot.size(), 0);
  EXPECT_EQ(victim.steal_into(loot), 0);
  EXPECT_EQ(victim.pop(), 0);
}

TEST(WorkDeque, GivesAThiefOnlyTheOldestIfItWantsNoMore) {
  deque victim;
  EXPECT_EQ(victim.steal_oldest(), 0);
  push_all(victim, 1, 3);
  EXPECT_EQ(victim.steal_oldest(), 1);
  EXPECT_EQ(victim.pop(), 3);
  EXPECT_EQ(victim.steal_oldest(), 2);  // the owner may do so, too
  EXPECT_EQ(victim.pop(), 0);
  EXPECT_EQ(victim.steal_oldest(), 0);
}

TEST(WorkDeque, LimitsWhatIsStolenAtOnce) {
  deque victim;
  deque loot;
  push_all(victim, 1, 1000);
  EXPECT_EQ(victim.steal_into(loot), 1);
  EXPECT_EQ(loot.size(), deque::max_stolen - 1);
  EXPECT_EQ(victim.size(), 1000 - deque::max_stolen);
}

TEST(WorkDeque, PutsStolenElementsAboveThoseTheThiefHas) {
  deque victim;
  deque loot;
  push_all(loot, 100, 120);
  push_all(victim, 1, 6);
  EXPECT_EQ(victim.steal_into(loot), 1);
  EXPECT_EQ(loot.pop(), 2);
  EXPECT_EQ(loot.pop(), 3);
  EXPECT_EQ(loot.pop(), 120);
}

TEST(WorkDeque, TakesBackOnlyTheNewest) {
  deque own;
  EXPECT_FALSE(own.pop_if(1));
  push_all(own, 1, 2);
  EXPECT_FALSE(own.pop_if(1));
  EXPECT_TRUE(own.pop_if(2));
  EXPECT_TRUE(own.pop_if(1));
  EXPECT_FALSE(own.pop_if(1));
  EXPECT_EQ(own.size(), 0);
}

TEST(WorkDeque, DoesNotTakeBackWhatIsStolen) {
  deque own;
  deque loot;
  push_all(own, 1, 2);
  EXPECT_EQ(own.steal_into(loot), 1);
  EXPECT_TRUE(own.pop_if(2));
  EXPECT_FALSE(own.pop_if(1));
  push_all(own, 3, 3);
  EXPECT_EQ(own.steal_into(loot), 3);
  EXPECT_FALSE(own.pop_if(3));
  EXPECT_EQ(own.size(), 0);
}

TEST(WorkDeque, KeepsItsOrderWhileItGrowsAndWrapsRound) {
  deque own;
  deque loot;
  std::uintptr_t pushed = 0;
  std::uintptr_t stolen = 0;
  for (int round = 0; round < 1000; ++round) {
    push_all(own, pushed + 1, pushed + 7);
    pushed += 7;
    ASSERT_EQ(own.steal_into(loot), ++stolen);
    for (const std::uintptr_t each : pop_all(loot)) ASSERT_EQ(each, ++stolen);
  }
  for (; pushed > stolen; --pushed) ASSERT_EQ(own.pop(), pushed);
  EXPECT_EQ(own.pop(), 0);
}

TEST(WorkDeque, WorksAgainAfterItWasLongAndGaveItsMemoryBack) {
  deque own;
  for (int round = 0; round < 3; ++round) {
    push_all(own, 1, 100'000);
    for (std::uintptr_t each = 100'000; each > 0; --each) ASSERT_EQ(own.pop(), each);
    EXPECT_EQ(own.pop(), 0);
    EXPECT_LE(own.capacity(), 1024);
  }
}

TEST(WorkDeque, DoesNotGrowWhileFewElementsPassThrough) {
  deque own;
  deque loot;
  for (std::uintptr_t each = 1; each <= 10'000; ++each) {
    push_all(own, each, each);
    ASSERT_EQ(own.steal_into(loot), each);
  }
  EXPECT_EQ(own.capacity(), 16);
}

// Elements are indices into a vector of plain counters, so that ThreadSanitizer also checks the
// memory to which an element refers.
class robbery {
 public:
  explicit robbery(std::size_t elements) : taken_(elements + 1, 0) {}

  // The owner works in bursts, so that the deque is empty, short and long by turns, while `thieves`
  // steal from it.
  void run(unsigned thieves) {
    {
      std::vector<std::jthread> robbing;
      for (unsigned i = 0; i < thieves; ++i) robbing.emplace_back([this] { rob(); });
      work();
      over_.store(true, std::memory_order_relaxed);
    }
    EXPECT_EQ(own_.size(), 0);
    taken_.front() = 1;
    EXPECT_THAT(taken_, Each(1));
  }

 private:
  void take(std::uintptr_t element) { ++taken_[element]; }
  void take_all(deque& from) {
    while (const std::uintptr_t each = from.pop()) take(each);
  }
  void rob() {
    deque loot;
    while (!over_.load(std::memory_order_relaxed)) {
      if (const std::uintptr_t oldest = own_.steal_into(loot)) {
        take(oldest);
        take_all(loot);
      } else {
        std::this_thread::yield();
      }
    }
  }
  void work() {
    std::uintptr_t pushed = 0;
    for (std::uintptr_t burst = 1; pushed + 1 < taken_.size(); burst = burst % 61 + 1) {
      for (std::uintptr_t i = 0; i < burst && pushed + 1 < taken_.size(); ++i) {
        taken_[++pushed] = 0;
        ASSERT_TRUE(own_.push(pushed));
        if (i % 3 == 2 && own_.pop_if(pushed)) take(pushed);
      }
      for (std::uintptr_t i = 0; i < burst / 2; ++i) {
        if (const std::uintptr_t each = own_.pop()) take(each);
      }
      if (burst % 8 == 0) take_all(own_);
    }
    take_all(own_);
  }

  deque own_;
  std::vector<int> taken_;
  std::atomic<bool> over_{false};
};

TEST(WorkDequeStress, EveryElementIsTakenOnce) { robbery(300'000).run(3); }

TEST(WorkDequeStress, EveryElementIsTakenOnceWithoutMembarrier) {
  gyre::detail::force_symmetric_fences(true);
  robbery(300'000).run(2);
  gyre::detail::force_symmetric_fences(false);
}

TEST(WorkDequeStress, WorkersMayRobEachOther) {
  constexpr std::size_t elements = 60'000;
  constexpr std::size_t workers = 3;
  std::vector<deque> deques(workers);
  std::vector<int> taken(workers * elements + 1, 0);
  std::atomic<std::size_t> left = workers * elements;
  {
    std::vector<std::jthread> working;
    for (std::size_t me = 0; me < workers; ++me) {
      working.emplace_back([&, me] {
        std::uintptr_t next = me * elements;
        const std::uintptr_t last = next + elements;
        while (left.load(std::memory_order_relaxed) != 0) {
          for (int i = 0; i < 20 && next < last; ++i) {
            taken[++next] = 0;
            ASSERT_TRUE(deques[me].push(next));
          }
          std::uintptr_t each = deques[me].pop();
          for (std::size_t by = 1; by < workers && each == 0; ++by) {
            each = deques[(me + by) % workers].steal_into(deques[me]);
          }
          if (each == 0) {
            std::this_thread::yield();
            continue;
          }
          ++taken[each];
          left.fetch_sub(1, std::memory_order_relaxed);
        }
      });
    }
  }
  taken.front() = 1;
  EXPECT_THAT(taken, Each(1));
}

}  // namespace
}  // namespace work_deque_test

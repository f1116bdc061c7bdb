// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/inbox/detail/segment.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace segment_test {
namespace {

using gyre::inbox::detail::segment_pool;

// Counts its live objects.
struct counted_segment : gyre::inbox::detail::segment<3> {
  counted_segment() { ++alive; }
  counted_segment(const counted_segment&) = delete;
  counted_segment& operator=(const counted_segment&) = delete;
  ~counted_segment() { --alive; }

  gyre::detail::atomic<counted_segment*> next{nullptr};
  static inline std::atomic<int> alive{0};
};

using pool = segment_pool<counted_segment, 4>;

TEST(InboxSegmentPool, HandsOutWhatItWasGiven) {
  {
    pool spares;
    std::set<counted_segment*> given;
    for (int i = 0; i < 4; ++i) given.insert(new counted_segment);
    for (counted_segment* each : given) spares.give(each);
    std::set<counted_segment*> taken;
    for (int i = 0; i < 4; ++i) taken.insert(spares.take());
    EXPECT_EQ(taken, given);
    EXPECT_EQ(counted_segment::alive, 4) << "nothing new while there are spares";
    counted_segment* fresh = spares.take();
    EXPECT_FALSE(given.contains(fresh));
    delete fresh;
    for (counted_segment* each : taken) delete each;
  }
  EXPECT_EQ(counted_segment::alive, 0);
}

TEST(InboxSegmentPool, KeepsNoMoreThanItsCapacity) {
  {
    pool spares;
    for (int i = 0; i < 10; ++i) spares.give(new counted_segment);
    EXPECT_EQ(counted_segment::alive, 4);
  }
  EXPECT_EQ(counted_segment::alive, 0) << "its end frees what it keeps";
}

TEST(InboxSegmentPool, UnlinksWhatItIsGiven) {
  pool spares;
  auto* linked = new counted_segment;
  linked->next = linked;
  spares.give(linked);
  const std::unique_ptr<counted_segment> taken(spares.take());
  EXPECT_EQ(taken.get(), linked);
  EXPECT_EQ(taken->next, nullptr);
}

TEST(InboxSegmentPool, GivesASpareToOneTakerOnly) {
  {
    pool spares;
    std::vector<std::jthread> takers;
    std::atomic<int> shared{0};
    for (int i = 0; i < 3; ++i) {
      takers.emplace_back([&] {
        for (int turn = 0; turn < 2000; ++turn) {
          counted_segment* mine = spares.take();
          // Each owner marks its segment, and finds no other mark.
          if (mine->next.exchange(mine) != nullptr) ++shared;
          spares.give(mine);
        }
      });
    }
    takers.clear();
    EXPECT_EQ(shared, 0);
    EXPECT_LE(counted_segment::alive, 4);
  }
  EXPECT_EQ(counted_segment::alive, 0);
}

}  // namespace
}  // namespace segment_test

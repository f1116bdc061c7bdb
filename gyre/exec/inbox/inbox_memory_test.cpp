// SPDX-License-Identifier: Apache-2.0
// Tests of the memory of posting: allocations are counted, bytes measured, and allocations made to
// fail. So this program replaces operator new, and malloc unless a sanitizer has replaced it.
#include <gyre/base/detail/slab_class.hpp>
#include <gyre/base/slab.hpp>
#include <gyre/exec/inbox/fifo.hpp>
#include <gyre/exec/inbox/inbox_test_support.hpp>
#include <gyre/exec/inbox/mutex.hpp>
#include <gyre/exec/inbox/sharded.hpp>
#include <gyre/testing/allocations.hpp>
#include <tests/support/sanitizers.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <semaphore>
#include <thread>
#include <vector>

#if !defined(GYRE_TEST_SANITIZED)
extern "C" {

void* __libc_malloc(std::size_t);

void* malloc(std::size_t size) noexcept {
  gyre::testing::detail::count_allocation();
  return __libc_malloc(size);
}

}  // extern "C"
#endif

namespace gyre::inbox::suite {
namespace {

using gyre::testing::allocations;
using gyre::testing::bytes_held;
using gyre::testing::bytes_in_use;
using gyre::testing::failing_allocations;

TEST(InboxMemoryTest, SeesAllocations) {
  const std::uint64_t before = allocations();
  const std::int64_t bytes = bytes_in_use();
  {
    const auto owned = std::make_unique<std::array<char, 1000>>();
    EXPECT_GT(allocations(), before);
    EXPECT_GE(bytes_in_use(), bytes + 1000);
  }
  EXPECT_EQ(bytes_in_use(), bytes);
  const failing_allocations here;
  // A call of the function: a compiler may leave out a new-expression.
  EXPECT_THROW(static_cast<void>(::operator new(1)), std::bad_alloc);
}

template <class Inbox>
class InboxMemory : public ::testing::Test {};
using our_inboxes = ::testing::Types<fifo, sharded>;
TYPED_TEST_SUITE(InboxMemory, our_inboxes);

constexpr int warm_up = 60;
constexpr int rounds = 120;

// Calls `post_some` repeatedly on another thread and runs the posted tasks on this one; returns the
// number of allocations of both threads after a warm-up.
template <class Inbox, class PostSome>
std::uint64_t allocations_in_steady_state(Inbox& inbox, PostSome post_some) {
  std::binary_semaphore go{0};
  std::binary_semaphore posted{0};
  std::jthread producer([&] {
    for (int round = 0; round < rounds; ++round) {
      go.acquire();
      post_some();
      posted.release();
    }
  });
  std::uint64_t before = 0;
  for (int round = 0; round < rounds; ++round) {
    if (round == warm_up) before = allocations();
    go.release();
    // The threads run concurrently in every other round, and one after the other in the rest.
    if (round % 2 == 0) run(inbox);
    posted.acquire();
    run(inbox);
  }
  return allocations() - before;
}

TYPED_TEST(InboxMemory, PostingACallableThatFitsCellsAllocatesNothing) {
  TypeParam inbox;
  std::uint64_t runs = 0;
  fates told;
  const std::size_t blocks_before = read_slab_stats().blocks_in_use;
  const std::uint64_t allocated = allocations_in_steady_state(inbox, [&] {
    for (int i = 0; i < 100; ++i) {
      inbox.push([&runs] { ++runs; });
      inbox.push([&runs, one = std::uint64_t{1}, also = std::uint64_t{0}] { runs += one + also; });
    }
    for (int i = 0; i < 20; ++i) {
      inbox.push(sized_task<32>(told));
      inbox.push(sized_task<64>(told));
      inbox.push(sized_task<120>(told));
    }
    EXPECT_EQ(read_slab_stats().blocks_in_use, blocks_before);
  });
  EXPECT_EQ(allocated, 0U);
  EXPECT_EQ(runs, rounds * 200U);
  EXPECT_EQ(told.destroyed, rounds * 60);
}

TYPED_TEST(InboxMemory, PostingALargeCallableAllocatesNothingOnceTheSlabIsWarm) {
  TypeParam inbox;
  fates told;
  const std::uint64_t slabs_before = read_slab_stats().slabs_mapped;
  const std::uint64_t allocated = allocations_in_steady_state(inbox, [&] {
    for (int i = 0; i < 50; ++i) {
      inbox.push(sized_task<160>(told));
      inbox.push(sized_task<700>(told));
    }
  });
  EXPECT_EQ(allocated, 0U);
  EXPECT_LE(read_slab_stats().slabs_mapped - slabs_before, 12U) << "for thousands of callables";
  EXPECT_EQ(told.destroyed, rounds * 100);
}

// The bytes held for 10,000 waiting tasks of `Bytes`, and once they have run.
struct footprint {
  std::int64_t waiting;
  std::int64_t idle;
};
constexpr std::int64_t waiting_tasks = 10'000;
constexpr std::int64_t slack = 768 * 1024;  // segments and slabs in use or kept for reuse

template <class Inbox, std::size_t Bytes>
footprint footprint_of() {
  fates told;
  const std::int64_t before = bytes_held();
  footprint held{};
  {
    Inbox inbox;
    for (int i = 0; i < waiting_tasks; ++i) inbox.push(sized_task<Bytes>(told));
    held.waiting = bytes_held() - before;
    run(inbox);
    held.idle = bytes_held() - before;
  }
  EXPECT_EQ(told.destroyed, waiting_tasks);
  return held;
}

TYPED_TEST(InboxMemory, ACallableTakesTheCellsThatItNeeds) {
  const auto bound = [](std::int64_t cells) {
    const std::int64_t bytes = waiting_tasks * cells * 32;
    return bytes + bytes / 8 + slack;  // an eighth for malloc's rounding of aligned blocks
  };
  EXPECT_LE((footprint_of<TypeParam, 24>().waiting), bound(1));
  EXPECT_LE((footprint_of<TypeParam, 56>().waiting), bound(2));
  EXPECT_LE((footprint_of<TypeParam, 88>().waiting), bound(3));
  const footprint largest = footprint_of<TypeParam, 120>();
  EXPECT_LE(largest.waiting, bound(4));
  EXPECT_LE(largest.idle, 17 * 64 * 1024 + slack) << "no more segments are kept";
}

TYPED_TEST(InboxMemory, ALargeCallableTakesACellAndABlockOfItsSize) {
  const std::int64_t block = gyre::detail::slab_class_bytes[gyre::detail::slab_class_of(160)];
  constexpr std::int64_t cell = 32;
  const footprint held = footprint_of<TypeParam, 160>();
  EXPECT_LE(held.waiting, waiting_tasks * (cell + block) + slack);
  EXPECT_LE(held.idle, waiting_tasks * cell + slack) << "the blocks went home";
}

TYPED_TEST(InboxMemory, ThousandsOfShortLivedProducersDoNotGrowIt) {
  TypeParam inbox;
  fates told;
  const auto short_lives = [&](int count) {
    for (int i = 0; i < count; ++i) {
      std::thread([&] {
        for (int task = 0; task < 3; ++task) inbox.push(sized_task<24>(told));
        inbox.push(sized_task<100>(told));
      }).join();
      if (i % 4 == 3) {
        EXPECT_EQ(run(inbox), 16U);
      }
    }
  };
  short_lives(40);
  const std::int64_t before = bytes_held();
  short_lives(2000);
  EXPECT_EQ(told.destroyed, 2040 * 4);
  // The bound is about one segment.
  EXPECT_NEAR(static_cast<double>(bytes_held()), static_cast<double>(before), 300e3);
}

TYPED_TEST(InboxMemory, AnInboxThatEndsGivesEverythingBack) {
  fates told;
  const auto live = [&] {
    TypeParam inbox;
    for (int i = 0; i < 4; ++i) {
      std::thread([&] {
        for (int task = 0; task < 500; ++task) inbox.push(sized_task<24>(told));
        inbox.push(sized_task<100>(told));
      }).join();
    }
    run(inbox, 700);
  };
  live();
  const std::int64_t before = bytes_held();
  live();
  EXPECT_EQ(bytes_held(), before);
  EXPECT_EQ(told.destroyed, 2 * 4 * 501);
}

TYPED_TEST(InboxMemory, AThreadThatPostsToOneInboxAfterAnotherDoesNotGrow) {
  const auto use_some = [](int count) {
    for (int i = 0; i < count; ++i) {
      TypeParam inbox;
      inbox.push([] {});
    }
  };
  use_some(20);
  const std::int64_t before = bytes_held();
  use_some(1000);
  EXPECT_LE(bytes_held() - before, 100'000);
}

template <class Inbox>
class InboxOfSmallSegments : public ::testing::Test {};
using inboxes_of_small_segments = ::testing::Types<basic_fifo<7>, basic_sharded<3>>;
TYPED_TEST_SUITE(InboxOfSmallSegments, inboxes_of_small_segments);

TYPED_TEST(InboxOfSmallSegments, OnceLongDoesNotStayLarge) {
  TypeParam inbox;
  const auto grow_and_shrink = [&](int tasks) {
    for (int i = 0; i < tasks; ++i) inbox.push([] {});
    const std::int64_t longest = bytes_held();
    run(inbox);
    return longest;
  };
  const std::int64_t before = bytes_held();
  const std::int64_t longest = grow_and_shrink(1000);
  const std::int64_t after = bytes_held();
  EXPECT_LT(after - before, (longest - before) / 3);
  grow_and_shrink(2000);
  // The bound allows for malloc's rounding of aligned blocks.
  EXPECT_LT(bytes_held() - after, (longest - before) / 20)
      << "what is kept does not depend on how long it was";
}

TEST(ShardedMemory, ADeadProducersShardIsFreedByTheNextRun) {
  sharded inbox;
  inbox.push([] {});
  run(inbox);
  const std::int64_t before = bytes_held();
  for (int i = 0; i < 10; ++i) std::thread([&] { inbox.push([] {}); }).join();
  EXPECT_GT(bytes_held(), before);
  EXPECT_EQ(run(inbox), 10U);
  EXPECT_EQ(bytes_held(), before);
}

TEST(ShardedMemory, AShardThatWasEmptyWhenItsThreadEndedIsFreedByTheNextRun) {
  sharded inbox;
  const std::int64_t before = bytes_held();
  for (int i = 0; i < 10; ++i) {
    std::binary_semaphore posted{0};
    std::binary_semaphore ran{0};
    std::jthread producer([&] {
      inbox.push([] {});
      posted.release();
      ran.acquire();
    });
    posted.acquire();
    EXPECT_EQ(run(inbox), 1U);
    ran.release();
  }
  EXPECT_EQ(run(inbox), 0U);
  EXPECT_EQ(bytes_held(), before);
}

template <class Inbox>
class InboxWithoutMemory : public ::testing::Test {};
using inboxes_without_memory = ::testing::Types<fifo, basic_fifo<2>, basic_fifo<7>, sharded,
                                                basic_sharded<3>, basic_sharded<5>, mutex>;
TYPED_TEST_SUITE(InboxWithoutMemory, inboxes_without_memory);

// More failures than positions in a fifo segment, except in sanitizer builds, where a throw costs
// ten times as much.
constexpr int many_failures = gyre::test::unless_sanitized(70'000);

TYPED_TEST(InboxWithoutMemory, StaysIntactWhenItCannotGrow) {
  TypeParam inbox;
  fates told;
  std::vector<int> seen;
  seen.reserve(100'000);
  int posted = 0;
  const auto post = [&] {
    inbox.push([&seen, id = posted, held = witness(told)] { seen.push_back(id); });
    ++posted;
  };
  int failures = 0;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 10 * round; ++i) post();
    const failing_allocations here;
    for (const int enough = failures + 5; failures < enough;) {
      try {
        post();
      } catch (const std::bad_alloc&) {
        ++failures;
      }
    }
  }
  EXPECT_EQ(told.destroyed, failures) << "what could not be stored is destroyed";
  EXPECT_EQ(inbox.pending(), static_cast<std::size_t>(posted));
  for (int i = 0; i < 10; ++i) post();
  EXPECT_EQ(run(inbox), static_cast<std::size_t>(posted));
  EXPECT_EQ(seen, numbers_up_to(posted));
  EXPECT_EQ(told.destroyed, failures + posted);
}

TYPED_TEST(InboxWithoutMemory, StaysIntactHoweverOftenItCannotGrow) {
  TypeParam inbox;
  std::vector<int> seen;
  seen.reserve(100'000);
  int posted = 0;
  const auto post = [&] {
    inbox.push([&seen, id = posted] { seen.push_back(id); });
    ++posted;
  };
  post();
  {
    const failing_allocations here;
    for (int failures = 0; failures < many_failures;) {
      try {
        post();
      } catch (const std::bad_alloc&) {
        ++failures;
      }
    }
  }
  for (int i = 0; i < 10; ++i) post();
  EXPECT_EQ(inbox.pending(), static_cast<std::size_t>(posted));
  EXPECT_EQ(run(inbox), static_cast<std::size_t>(posted));
  EXPECT_EQ(seen, numbers_up_to(posted));
}

TYPED_TEST(InboxWithoutMemory, StaysIntactWhenCallablesOfDifferentSizesFail) {
  TypeParam inbox;
  fates told;
  std::vector<int> seen;
  seen.reserve(100'000);
  int posted = 0;
  int made = 0;
  const auto post = [&]<std::size_t Extra>(std::array<char, Extra> extra) {
    ++made;
    inbox.push(
        [&seen, id = posted, held = witness(told), extra] { seen.push_back(id + extra.front()); });
    ++posted;
  };
  // The number of failures, 0 or 1.
  const auto post_or_fail = [&](auto extra) {
    try {
      post(extra);
      return 0;
    } catch (const std::bad_alloc&) {
      return 1;
    }
  };
  int failures = 0;
  for (int round = 0; round < 8; ++round) {
    for (int i = 0; i < round; ++i) post(std::array<char, 30>{});
    {
      const failing_allocations here;
      for (const int enough = failures + 8; failures < enough;) {
        failures += post_or_fail(std::array<char, 90>{});
        failures += post_or_fail(std::array<char, 50>{});
        failures += post_or_fail(std::array<char, 1>{});
      }
    }
    EXPECT_EQ(inbox.pending(), static_cast<std::size_t>(posted) - seen.size());
    if (round % 3 == 2) run(inbox);
  }
  post(std::array<char, 90>{});
  run(inbox);
  EXPECT_EQ(seen, numbers_up_to(posted));
  EXPECT_EQ(made, posted + failures);
  EXPECT_EQ(told.destroyed, made);
  EXPECT_EQ(inbox.pending(), 0U);
}

TYPED_TEST(InboxWithoutMemory, AFirstPostThatFailsLeavesNothing) {
  TypeParam inbox;
  std::thread([&] {
    const failing_allocations here;
    try {
      inbox.push([] {});
      inbox.push([] {});
    } catch (const std::bad_alloc&) {
    }
  }).join();
  const std::size_t stored = inbox.pending();
  EXPECT_EQ(inbox.ready(), stored > 0);
  inbox.push([] {});
  EXPECT_EQ(run(inbox), stored + 1);
}

}  // namespace
}  // namespace gyre::inbox::suite

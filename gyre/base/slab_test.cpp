// SPDX-License-Identifier: Apache-2.0
//
// Tests of the per-thread slab: the reuse of blocks, and bounds on the memory that it keeps.
#include <gyre/base/detail/block_cache.hpp>
#include <gyre/base/detail/slab_class.hpp>
#include <gyre/base/detail/slab_heap.hpp>
#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/slab.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace slab_test {
namespace {

using gyre::read_slab_stats;
using gyre::slab_allocate;
using gyre::slab_deallocate;

constexpr std::size_t slab_bytes = gyre::detail::slab::bytes;

std::vector<void*> allocate_many(std::size_t count, std::size_t bytes) {
  std::vector<void*> blocks(count);
  for (void*& block : blocks) {
    block = slab_allocate(bytes);
    std::memset(block, 0x5a, bytes);
  }
  return blocks;
}

void deallocate_all(const std::vector<void*>& blocks, std::size_t bytes) {
  for (void* block : blocks) slab_deallocate(block, bytes);
}

void on_another_thread(const auto& work) { std::thread{work}.join(); }

// Starts each test without cached blocks, and measures relative to the start.
class Slab : public testing::Test {
 protected:
  void SetUp() override {
    gyre::slab_trim();
    before_ = read_slab_stats();
  }
  void TearDown() override {
    gyre::set_slab_cache_limit(gyre::default_slab_cache_limit);
    EXPECT_EQ(read_slab_stats().blocks_in_use, before_.blocks_in_use) << "the test leaks";
  }
  std::size_t new_bytes_held() const { return read_slab_stats().bytes_held - before_.bytes_held; }
  std::uint64_t new_slabs() const { return read_slab_stats().slabs_mapped - before_.slabs_mapped; }
  std::uint64_t new_remote_frees() const {
    return read_slab_stats().remote_frees - before_.remote_frees;
  }
  std::size_t new_blocks() const { return read_slab_stats().blocks_in_use - before_.blocks_in_use; }

  gyre::slab_stats before_;
};

TEST_F(Slab, EverySizeIsAlignedAndDisjoint) {
  struct piece {
    unsigned char* data;
    std::size_t bytes;
  };
  std::vector<piece> pieces;
  for (std::size_t bytes = 0; bytes <= gyre::slab_max_bytes + 64; bytes += bytes < 300 ? 1 : 37) {
    for (int i = 0; i < 3; ++i) {
      auto* data = static_cast<unsigned char*>(slab_allocate(bytes));
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(data) % gyre::slab_alignment, 0U) << bytes;
      std::fill_n(data, bytes, static_cast<unsigned char>(pieces.size()));
      pieces.push_back({data, bytes});
    }
  }
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto [data, bytes] = pieces[i];
    ASSERT_TRUE(std::all_of(data, data + bytes, [i](unsigned char each) {
      return each == static_cast<unsigned char>(i);
    })) << bytes;
    slab_deallocate(data, bytes);
  }
}

// 64-byte aligned, as are slabs and all classes that are multiples of 64.
template <std::size_t Bytes>
struct alignas(64) lines : gyre::detail::slab_object {
  std::array<std::byte, Bytes> bytes;
};

template <std::size_t Bytes>
void expect_aligned_blocks(bool from_slab) {
  const std::size_t before = read_slab_stats().blocks_in_use;
  std::vector<std::unique_ptr<lines<Bytes>>> all(100);
  for (auto& each : all) {
    each = std::make_unique<lines<Bytes>>();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(each.get()) % 64, 0u) << Bytes;
  }
  EXPECT_EQ(read_slab_stats().blocks_in_use - before, from_slab ? all.size() : 0u) << Bytes;
}

TEST_F(Slab, ObjectsOfWholeCacheLinesAreAlignedToThem) {
  expect_aligned_blocks<64>(true);
  expect_aligned_blocks<256>(true);
  expect_aligned_blocks<448>(true);
  expect_aligned_blocks<4096>(true);
  expect_aligned_blocks<8192>(false);
}

TEST_F(Slab, NullIsIgnored) { slab_deallocate(nullptr, 16); }

TEST_F(Slab, ClassesWasteLessThanAThirdAboveSixtyFourBytes) {
  for (std::size_t bytes = 1; bytes <= gyre::slab_max_bytes; ++bytes) {
    const std::size_t given = gyre::detail::slab_class_bytes[gyre::detail::slab_class_of(bytes)];
    ASSERT_GE(given, bytes);
    ASSERT_LT(given - bytes, std::max<std::size_t>(16, given / 3 + 1)) << bytes;
  }
}

TEST_F(Slab, FreedBlockIsTheNextOneGiven) {
  void* first = slab_allocate(100);
  slab_deallocate(first, 100);
  void* second = slab_allocate(100);
  EXPECT_EQ(first, second);
  slab_deallocate(second, 100);
}

TEST_F(Slab, SteadyUseMapsNothing) {
  deallocate_all(allocate_many(10'000, 64), 64);
  const std::uint64_t mapped = new_slabs();
  for (int round = 0; round < 20; ++round) deallocate_all(allocate_many(10'000, 64), 64);
  EXPECT_EQ(new_slabs(), mapped);
}

TEST_F(Slab, EmptySlabsServeOtherSizes) {
  deallocate_all(allocate_many(10'000, 64), 64);
  const std::uint64_t mapped = new_slabs();
  deallocate_all(allocate_many(2'000, 256), 256);
  EXPECT_EQ(new_slabs(), mapped);
}

TEST_F(Slab, StatisticsCountBlocksAndBytes) {
  const auto blocks = allocate_many(1000, 1024);
  EXPECT_EQ(new_blocks(), 1000U);
  EXPECT_GE(new_bytes_held(), 1000U * 1024U);
  EXPECT_LE(new_bytes_held(), 1000U * 1024U * 5 / 4);
  deallocate_all(blocks, 1024);
  EXPECT_EQ(new_blocks(), 0U);
  EXPECT_GE(read_slab_stats().bytes_cached, 900U * 1024U);
}

TEST_F(Slab, TrimReturnsAllThatIsFree) {
  const auto kept = allocate_many(1, 64);
  deallocate_all(allocate_many(10'000, 64), 64);
  deallocate_all(allocate_many(100, 4096), 4096);
  gyre::slab_trim();
  EXPECT_EQ(read_slab_stats().bytes_cached, before_.bytes_cached);
  EXPECT_LE(new_bytes_held(), slab_bytes);
  deallocate_all(kept, 64);
  gyre::slab_trim();
  EXPECT_EQ(new_bytes_held(), 0U);
}

TEST_F(Slab, CacheKeepsNoMoreThanTheLimit) {
  constexpr std::size_t limit = 4 * slab_bytes;
  gyre::set_slab_cache_limit(limit);
  EXPECT_EQ(gyre::slab_cache_limit(), limit);
  deallocate_all(allocate_many(20'000, 64), 64);
  EXPECT_EQ(read_slab_stats().bytes_cached, limit);
  EXPECT_LE(new_bytes_held(), limit + slab_bytes);  // and the slab in use
  gyre::set_slab_cache_limit(0);
  deallocate_all(allocate_many(20'000, 64), 64);
  EXPECT_EQ(read_slab_stats().bytes_cached, 0U);
}

TEST_F(Slab, AFullCacheUnmapsASixteenthOfItsSlabsAtOnce) {
  constexpr std::size_t limit = 64 * slab_bytes;
  gyre::set_slab_cache_limit(limit);
  const auto blocks = allocate_many(100 * slab_bytes / 4096, 4096);
  for (void* block : blocks) {
    const gyre::slab_stats before_free = read_slab_stats();
    slab_deallocate(block, 4096);
    const gyre::slab_stats now = read_slab_stats();
    ASSERT_LE(now.bytes_cached, limit);
    if (now.slabs_unmapped != before_free.slabs_unmapped) {
      ASSERT_EQ(before_free.bytes_cached, limit);
      ASSERT_EQ(now.bytes_cached, limit - limit / 16);
    }
  }
  EXPECT_GT(read_slab_stats().slabs_unmapped, before_.slabs_unmapped);
}

TEST_F(Slab, TrimUnmapsEachEmptySlab) {
  std::set<void*> slabs;
  std::vector<void*> blocks = allocate_many(1000, 4096);
  for (void* block : blocks) slabs.insert(&gyre::detail::slab::of(block));
  ASSERT_GE(slabs.size(), 50U);
  // In another order than that of the addresses, with a slab between others that stays in use.
  std::rotate(blocks.begin(), blocks.begin() + 300, blocks.end());
  void* const kept = blocks.back();
  blocks.pop_back();
  deallocate_all(blocks, 4096);
  gyre::slab_trim();
  for (void* const each : slabs) {
    const auto page = reinterpret_cast<std::uintptr_t>(each) & ~std::uintptr_t{4095};
    const bool is_mapped = ::msync(reinterpret_cast<void*>(page), 4096, MS_ASYNC) == 0;
    EXPECT_EQ(is_mapped, each == &gyre::detail::slab::of(kept));
    EXPECT_TRUE(is_mapped || errno == ENOMEM);
  }
  std::memset(kept, 1, 4096);
  slab_deallocate(kept, 4096);
}

std::size_t mapping_count() {
  std::ifstream maps("/proc/self/maps");
  return static_cast<std::size_t>(
      std::count(std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>(), '\n'));
}

// A hole in the address space in which a slab would fit were it aligned.
class misaligned_hole {
 public:
  misaligned_hole() {
    EXPECT_NE(memory_, MAP_FAILED);
    const auto start = reinterpret_cast<std::uintptr_t>(memory_);
    hole_ = static_cast<std::byte*>(memory_) + (slab_bytes - start % slab_bytes) + 4096;
    ::munmap(hole_, slab_bytes);
  }
  // The hole may belong to others by now, such as a sanitizer.
  ~misaligned_hole() {
    auto* const start = static_cast<std::byte*>(memory_);
    ::munmap(start, static_cast<std::size_t>(hole_ - start));
    ::munmap(hole_ + slab_bytes, static_cast<std::size_t>(start + bytes - hole_) - slab_bytes);
  }
  misaligned_hole& operator=(misaligned_hole&&) = delete;

 private:
  static constexpr std::size_t bytes = 4 * slab_bytes;
  void* memory_ = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::byte* hole_ = nullptr;
};

TEST_F(Slab, ManySlabsAreFewMappingsOfTheKernel) {
  const misaligned_hole hole;
  const std::size_t before = mapping_count();
  const auto blocks = allocate_many(16'000, 4096);
  ASSERT_GE(new_slabs(), 1000U);
  EXPECT_LE(mapping_count() - before, 200U);
  deallocate_all(blocks, 4096);
}

TEST_F(Slab, RequestsBeyondTheLargestClassGoToOperatorNew) {
  void* large = slab_allocate(gyre::slab_max_bytes + 1);
  std::memset(large, 1, gyre::slab_max_bytes + 1);
  EXPECT_EQ(new_blocks(), 0U);
  slab_deallocate(large, gyre::slab_max_bytes + 1);
}

TEST_F(Slab, RemoteFreeReturnsToOwner) {
  constexpr std::size_t count = 5000;
  const auto first = allocate_many(count, 128);
  const std::uint64_t mapped = new_slabs();
  on_another_thread([&] {
    deallocate_all(first, 128);
    void* own = slab_allocate(128);
    EXPECT_THAT(first, testing::Not(testing::Contains(own))) << "went to the thread that freed";
    slab_deallocate(own, 128);
  });
  const auto again = allocate_many(count, 128);
  EXPECT_EQ(new_remote_frees(), count);
  EXPECT_LE(new_slabs(), mapped + 2) << "one of the other thread, one for what was left uncut";
  deallocate_all(again, 128);
}

TEST_F(Slab, TrimTakesRemoteFreesHome) {
  const auto blocks = allocate_many(5000, 128);
  on_another_thread([&] { deallocate_all(blocks, 128); });
  EXPECT_GT(new_bytes_held(), 0U);
  gyre::slab_trim();
  EXPECT_EQ(new_remote_frees(), blocks.size());
  EXPECT_EQ(new_bytes_held(), 0U);
}

TEST_F(Slab, ThreadThatEndsReturnsItsEmptySlabs) {
  on_another_thread([] { deallocate_all(allocate_many(10'000, 64), 64); });
  EXPECT_EQ(new_bytes_held(), 0U);
}

TEST_F(Slab, BlocksOutliveTheirThreadAndThenFreeItsSlabs) {
  std::vector<void*> blocks;
  on_another_thread([&] { blocks = allocate_many(3000, 200); });
  EXPECT_GE(new_bytes_held(), blocks.size() * 200);
  for (void* block : blocks) ASSERT_EQ(*static_cast<unsigned char*>(block), 0x5a);
  deallocate_all(blocks, 200);
  EXPECT_EQ(new_bytes_held(), 0U);
}

TEST_F(Slab, HeapOfAnEndedThreadIsAdoptedByTheNext) {
  std::vector<void*> blocks;
  on_another_thread([&] { blocks = allocate_many(10, 64); });
  const std::uint64_t mapped = new_slabs();
  const std::size_t heaps = read_slab_stats().heaps;
  on_another_thread([&] { deallocate_all(allocate_many(10, 64), 64); });
  EXPECT_EQ(new_slabs(), mapped);
  EXPECT_EQ(read_slab_stats().heaps, heaps);
  deallocate_all(blocks, 64);
}

TEST_F(Slab, ThousandsOfShortLivedThreadsDoNotGrowMemory) {
  on_another_thread([] { deallocate_all(allocate_many(1, 64), 64); });
  const std::size_t heaps = read_slab_stats().heaps;
  for (int i = 0; i < 2000; ++i) {
    std::vector<void*> blocks;
    on_another_thread([&] { blocks = allocate_many(20, 64); });
    deallocate_all(blocks, 64);
  }
  EXPECT_EQ(read_slab_stats().heaps, heaps);
  EXPECT_EQ(new_bytes_held(), 0U);
}

// Frees and allocates after the thread's slab was released.
struct late_user {
  ~late_user() {
    slab_deallocate(early_, 48);
    for (int i = 0; i < 100; ++i) {
      void* late = slab_allocate(48);
      std::memset(late, i, 48);
      slab_deallocate(late, 48);
    }
  }
  void* early_ = nullptr;
};

TEST_F(Slab, WorksWhileThreadLocalsAreDestroyed) {
  on_another_thread([] {
    thread_local late_user user;  // constructed before the thread's slab, so destroyed after it
    user.early_ = slab_allocate(48);
  });
  EXPECT_EQ(new_blocks(), 0U);
  EXPECT_EQ(new_bytes_held(), 0U);
}

TEST_F(Slab, FirstUseMayBeWhileThreadLocalsAreDestroyed) {
  on_another_thread([] { thread_local const late_user user; });
  EXPECT_EQ(new_blocks(), 0U);
  EXPECT_EQ(new_bytes_held(), 0U);
}

TEST(SlabDeathTest, WorksWhileStaticObjectsAreDestroyed) {
  EXPECT_EXIT(
      {
        static late_user user;
        user.early_ = slab_allocate(48);
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(Slab, WorksInAForkedChild) {
  std::vector<void*> own = allocate_many(1000, 64);
  std::vector<void*> of_ended;
  on_another_thread([&] { of_ended = allocate_many(1000, 64); });
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    deallocate_all(own, 64);
    deallocate_all(of_ended, 64);
    deallocate_all(allocate_many(5000, 64), 64);
    gyre::slab_trim();
    ::_exit(new_bytes_held() == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  deallocate_all(own, 64);
  deallocate_all(of_ended, 64);
}

#if defined(GYRE_ASAN)
// A block of 64 bytes, allocated for 50.
class SlabDeathWithAsan : public testing::Test {
 protected:
  char* block_ = static_cast<char*>(slab_allocate(50));
};

TEST_F(SlabDeathWithAsan, UseAfterFreeIsReported) {
  slab_deallocate(block_, 50);
  volatile char* freed = block_;
  EXPECT_DEATH(freed[0] = 1, "use-after-poison");
  EXPECT_DEATH(freed[49] = 1, "use-after-poison");
}

TEST_F(SlabDeathWithAsan, UseBeyondWhatWasAskedForIsReported) {
  volatile char* data = block_;
  data[49] = 1;
  EXPECT_DEATH(data[50] = 1, "use-after-poison");
  slab_deallocate(block_, 50);
}

TEST_F(SlabDeathWithAsan, DoubleFreeIsReported) {
  slab_deallocate(block_, 50);
  EXPECT_DEATH(slab_deallocate(block_, 50), "use-after-poison");
}

TEST_F(SlabDeathWithAsan, UseAfterRemoteFreeIsReported) {
  on_another_thread([this] { slab_deallocate(block_, 50); });
  volatile char* freed = block_;
  EXPECT_DEATH(freed[49] = 1, "use-after-poison");
  gyre::slab_trim();
}
#endif

#if !defined(NDEBUG)
TEST(SlabDeathTest, WrongSizeIsCaughtInDebugBuilds) {
  void* block = slab_allocate(64);
  EXPECT_DEATH(slab_deallocate(block, 128), "another size");
  slab_deallocate(block, 64);
}
#endif

// Coroutine frames: blocks by class, from the thread's own stack of freed blocks.

TEST(SlabClass, GivesTheBlockThatWasFreedLast) {
  const std::size_t size_class = gyre::detail::slab_class_of(100);
  void* const one = gyre::detail::slab_allocate_class(size_class);
  void* const two = gyre::detail::slab_allocate_class(size_class);
  gyre::detail::slab_deallocate_class(one, size_class);
  gyre::detail::slab_deallocate_class(two, size_class);
  EXPECT_EQ(gyre::detail::slab_allocate_class(size_class), two);
  EXPECT_EQ(gyre::detail::slab_allocate_class(size_class), one);
  gyre::detail::slab_deallocate_class(one, size_class);
  gyre::detail::slab_deallocate_class(two, size_class);
}

TEST(SlabClass, KeepsNoMoreThanItsLimitAndCountsItAsFree) {
  constexpr std::size_t count = 1000;
  const std::size_t size_class = gyre::detail::slab_class_of(4096);
  const std::size_t before = gyre::read_slab_stats().blocks_in_use;
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < count; ++i) {
    blocks.push_back(gyre::detail::slab_allocate_class(size_class));
  }
  EXPECT_EQ(gyre::read_slab_stats().blocks_in_use, before + count);
  for (void* block : blocks) gyre::detail::slab_deallocate_class(block, size_class);
  EXPECT_EQ(gyre::read_slab_stats().blocks_in_use, before);
  EXPECT_GT(gyre::read_slab_stats().bytes_parked, 0U);
  EXPECT_LE(gyre::read_slab_stats().bytes_parked, 64U * 1024);
  gyre::slab_trim();
  EXPECT_EQ(gyre::read_slab_stats().bytes_parked, 0U);
  EXPECT_EQ(gyre::read_slab_stats().blocks_in_use, before);
}

TEST(SlabClass, BlocksFreedByAnotherThreadComeHomeWhenItEnds) {
  constexpr std::size_t count = 2000;
  const std::size_t size_class = gyre::detail::slab_class_of(64);
  const std::size_t before = gyre::read_slab_stats().blocks_in_use;
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < count; ++i) {
    blocks.push_back(gyre::detail::slab_allocate_class(size_class));
  }
  std::thread([&] {
    // A thread that frees before it ever allocated has no stack; afterwards it has one.
    for (std::size_t i = 0; i < count / 2; ++i) {
      gyre::detail::slab_deallocate_class(blocks[i], size_class);
    }
    gyre::detail::slab_deallocate_class(gyre::detail::slab_allocate_class(size_class), size_class);
    for (std::size_t i = count / 2; i < count; ++i) {
      gyre::detail::slab_deallocate_class(blocks[i], size_class);
    }
  }).join();
  gyre::slab_trim();
  EXPECT_EQ(gyre::read_slab_stats().blocks_in_use, before);
}

TEST(SlabClass, AFullStackGivesHalfOfItsBlocksHome) {
  gyre::slab_trim();
  const std::size_t size_class = gyre::detail::slab_class_of(4096);
  std::vector<void*> blocks;
  for (int i = 0; i < 9; ++i) blocks.push_back(gyre::detail::slab_allocate_class(size_class));
  gyre::slab_trim();
  for (std::size_t i = 0; i < 8; ++i) {
    gyre::detail::slab_deallocate_class(blocks[i], size_class);
  }
  EXPECT_EQ(gyre::read_slab_stats().bytes_parked, 8U * 4096);
  gyre::detail::slab_deallocate_class(blocks[8], size_class);
  EXPECT_EQ(gyre::read_slab_stats().bytes_parked, 5U * 4096);
  for (std::size_t i = 8; i > 3; --i) {
    EXPECT_EQ(gyre::detail::slab_allocate_class(size_class), blocks[i]);
  }
  for (std::size_t i = 4; i < 9; ++i) {
    gyre::detail::slab_deallocate_class(blocks[i], size_class);
  }
}

// As coroutines do, which look into the thread's stack themselves.
std::vector<void*> allocate_frames(std::size_t count, std::size_t bytes) {
  std::vector<void*> frames(count);
  for (std::size_t i = 0; i < count; ++i) {
    frames[i] = gyre::detail::allocate_frame(gyre::detail::slab_class_of(bytes));
    std::memset(frames[i], static_cast<int>(i % 256), bytes);
  }
  return frames;
}

void deallocate_frames(const std::vector<void*>& frames) {
  for (void* frame : frames) gyre::detail::deallocate_frame(frame);
}

TEST(SlabFrame, FramesAreDisjointHoweverTheyCome) {
  constexpr std::size_t bytes = 80;
  for (int round = 0; round < 3; ++round) {
    const std::vector<void*> frames = allocate_frames(1000, bytes);
    for (std::size_t i = 0; i < frames.size(); ++i) {
      const auto* const frame = static_cast<const unsigned char*>(frames[i]);
      EXPECT_EQ(std::count(frame, frame + bytes, i % 256), static_cast<std::ptrdiff_t>(bytes));
    }
    deallocate_frames(frames);
  }
}

TEST(SlabFrame, MayBeFreedByAThreadThatNeverAllocated) {
  gyre::slab_trim();
  const std::size_t before = gyre::read_slab_stats().blocks_in_use;
  const std::vector<void*> frames = allocate_frames(1000, 100);
  on_another_thread([&] { deallocate_frames(frames); });
  gyre::slab_trim();
  EXPECT_EQ(gyre::read_slab_stats().blocks_in_use, before);
}

struct late_frames {
  ~late_frames() {
    deallocate_frames(frames);
    deallocate_frames(allocate_frames(10, 100));
  }
  std::vector<void*> frames;
};

TEST(SlabFrame, MayComeAndGoWhileThreadLocalsAreDestroyed) {
  gyre::slab_trim();
  const std::size_t before = gyre::read_slab_stats().blocks_in_use;
  on_another_thread([] {
    thread_local late_frames late;  // constructed before the thread's slab, so destroyed after it
    late.frames = allocate_frames(1000, 100);
  });
  gyre::slab_trim();
  EXPECT_EQ(gyre::read_slab_stats().blocks_in_use, before);
}

}  // namespace
}  // namespace slab_test

// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/memory.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>
#include <vector>

namespace lab {
namespace memory_test {
namespace {

// Keeps the compiler from dropping an allocation whose block is never used.
void keep(void* block) { asm volatile("" : : "r"(block) : "memory"); }

class Allocations : public testing::Test {
 protected:
  void SetUp() override {
    if (!allocations()) GTEST_SKIP() << "the sanitizer has its own malloc";
  }

  template <class F>
  static std::uint64_t during(F&& work) {
    const std::uint64_t before = *allocations();
    work();
    return *allocations() - before;
  }
};

TEST_F(Allocations, NoneWhenNothingAllocates) {
  EXPECT_EQ(during([] { keep(nullptr); }), 0u);
}

TEST_F(Allocations, NewCountsOnce) {
  EXPECT_EQ(during([] {
              auto number = std::make_unique<int>(1);
              keep(number.get());
            }),
            1u);
}

TEST_F(Allocations, EveryFunctionOfTheMallocFamilyCountsOnce) {
  const auto counted = during([] {
    void* block = std::malloc(10);
    block = std::realloc(block, 10'000);
    keep(block);
    std::free(block);
    block = std::calloc(2, 10);
    keep(block);
    std::free(block);
    block = std::aligned_alloc(64, 128);
    keep(block);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0u);
    std::free(block);
    EXPECT_EQ(posix_memalign(&block, 4096, 100), 0);
    keep(block);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 4096, 0u);
    std::free(block);
  });
  EXPECT_EQ(counted, 5u);
}

TEST_F(Allocations, BytesAreThoseAskedFor) {
  const std::uint64_t before = *allocated_bytes();
  void* block = std::malloc(10);
  block = std::realloc(block, 100);
  keep(block);
  std::free(block);
  block = std::calloc(3, 1000);
  keep(block);
  std::free(block);
  EXPECT_EQ(*allocated_bytes() - before, 10u + 100u + 3000u);
}

TEST_F(Allocations, OverAlignedNewCountsOnce) {
  struct alignas(128) wide {
    char bytes[128];
  };
  EXPECT_EQ(during([] {
              auto block = std::make_unique<wide>();
              keep(block.get());
            }),
            1u);
}

TEST_F(Allocations, AllocationsOfAnEndedThreadStayCounted) {
  constexpr int blocks = 1000;
  const auto counted = during([] {
    std::thread([] {
      for (int i = 0; i < blocks; ++i) {
        auto number = std::make_unique<int>(i);
        keep(number.get());
      }
    }).join();
  });
  EXPECT_GE(counted, 1000u);
  EXPECT_LT(counted, 1050u);  // the thread itself needs a few
}

TEST_F(Allocations, MoreThreadsThanCountersLoseNothing) {
  constexpr std::uint64_t threads = 300;
  const auto counted = during([] {
    for (std::uint64_t i = 0; i < threads; ++i) {
      std::thread([] {
        auto number = std::make_unique<int>(1);
        keep(number.get());
      }).join();
    }
  });
  EXPECT_GE(counted, 2 * threads);  // the number, and the thread's own state
}

TEST(PeakMemory, RisesWithMemoryThatIsTouchedAndStaysThere) {
  const std::uint64_t before = peak_memory_bytes();
  EXPECT_GT(before, 0u);
  constexpr std::size_t size = 64 << 20;
  {
    std::vector<char> block(size, 'x');
    keep(block.data());
  }
  EXPECT_GE(peak_memory_bytes(), before + size / 2);
}

}  // namespace
}  // namespace memory_test
}  // namespace lab

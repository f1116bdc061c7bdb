// SPDX-License-Identifier: Apache-2.0
#include <gyre/testing/allocations.hpp>

#include <gyre/base/slab.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <thread>

namespace allocations_test {
namespace {

using gyre::testing::allocation_count;

using kilobyte = std::array<std::byte, 1024>;
struct alignas(256) aligned {
  std::byte bytes[256];
};

TEST(Allocations, AreCounted) {
  EXPECT_TRUE(gyre::testing::allocations_are_counted());
  const allocation_count during;
  EXPECT_EQ(during.allocations(), 0U);
  // Calls of the functions: a compiler may leave out a new-expression.
  const std::align_val_t alignment{alignof(aligned)};
  void* const one = ::operator new(1024);
  void* const other = ::operator new(1024, alignment);
  void* const array = ::operator new[](1024);
  EXPECT_EQ(during.allocations(), 3U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(other) % alignof(aligned), 0U);
  ::operator delete(one);
  ::operator delete(other, alignment);
  ::operator delete[](array);
  EXPECT_EQ(during.allocations(), 3U);
  EXPECT_EQ(during.bytes_in_use(), 0);
}

TEST(Allocations, AllocationsOfOtherThreadsAreCounted) {
  const allocation_count during;
  std::thread([] { ::operator delete(::operator new(1024)); }).join();
  EXPECT_GE(during.allocations(), 1U);
}

TEST(Allocations, BytesInUseFallWhenTheyAreFreed) {
  const allocation_count during;
  auto one = std::make_unique<kilobyte>();
  EXPECT_GE(during.bytes_in_use(), 1024);
  one.reset();
  EXPECT_EQ(during.bytes_in_use(), 0);
}

TEST(Allocations, BytesHeldIncludeSlabs) {
  const std::int64_t before = gyre::testing::bytes_held();
  void* const block = gyre::slab_allocate(64);
  EXPECT_GT(gyre::testing::bytes_held(), before);
  gyre::slab_deallocate(block, 64);
}

TEST(Allocations, BlocksOfSlabsAreCounted) {
  gyre::slab_deallocate(gyre::slab_allocate(64), 64);  // maps a slab
  const allocation_count during;
  void* const block = gyre::slab_allocate(64);
  EXPECT_EQ(during.slab_blocks(), 1);
  gyre::slab_deallocate(block, 64);
  EXPECT_EQ(during.slab_blocks(), 0);
  EXPECT_EQ(during.slabs_mapped(), 0U);
  EXPECT_EQ(during.allocations(), 0U);
}

TEST(Allocations, FailOnOneThread) {
  void* here = nullptr;
  void* quietly = nullptr;
  bool failed = false;
  {
    // No assertion here: a failed one allocates.
    const gyre::testing::failing_allocations none;
    try {
      here = ::operator new(1024);
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    quietly = ::operator new(1024, std::nothrow);
  }
  EXPECT_TRUE(failed);
  EXPECT_EQ(here, nullptr);
  EXPECT_EQ(quietly, nullptr);
  here = ::operator new(1024);
  EXPECT_NE(here, nullptr);
  ::operator delete(here);
}

}  // namespace
}  // namespace allocations_test

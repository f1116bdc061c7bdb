// SPDX-License-Identifier: Apache-2.0
// allocation_count: counts the allocations of a program within a scope. failing_allocations: makes
// allocations fail. Both need a program linked with gyre::testing_allocations.
//
//     const gyre::testing::allocation_count during;
//     answer(message);
//     EXPECT_EQ(during.allocations(), 0U);
//     EXPECT_EQ(during.slab_blocks(), 0);  // every frame was given back
//
// How it works: if a program links the library and uses a name of this header, the library replaces
// operator new and operator delete for all code of the program and its shared libraries. A program
// that replaces these operators itself cannot link the library.
//
// Limits: malloc(3) is not counted; in slabs, only the blocks in use and the mapped slabs are
// counted. ThreadSanitizer's runtime does not allow the replacement: with it, all counts of
// operator new stay 0, no allocation fails, and allocations_are_counted() is false.
#pragma once

#include <gyre/base/slab.hpp>

#include <cstddef>
#include <cstdint>

namespace gyre::testing {

/// Whether operator new is replaced; false under ThreadSanitizer.
bool allocations_are_counted() noexcept;

/// The number of calls of operator new by all threads since the program began.
///
/// Thread-safety: any thread, also for bytes_in_use() and bytes_held().
std::size_t allocations() noexcept;
/// The number of bytes in use from operator new, as malloc_usable_size(3) counts them.
std::int64_t bytes_in_use() noexcept;
/// The number of bytes that the program holds: from operator new, and in slabs after slab_trim().
std::int64_t bytes_held() noexcept;

/// Counts the allocations of all threads since its construction.
///
/// Thread-safety: none. For exact counts, no other thread may allocate meanwhile.
/// Complexity: the constructor, slab_blocks() and slabs_mapped() read the statistics of all heaps.
class allocation_count {
 public:
  allocation_count() noexcept;

  /// The number of calls of operator new. Run the code once before counting: the first run may
  /// allocate memory that later runs reuse.
  [[nodiscard]] std::size_t allocations() const noexcept;
  /// The growth of bytes_in_use(); negative if more was freed than allocated.
  [[nodiscard]] std::int64_t bytes_in_use() const noexcept;
  /// The growth of the number of slab blocks in use: coroutine frames, posted callables and similar
  /// objects that were not freed.
  [[nodiscard]] std::int64_t slab_blocks() const noexcept;
  /// The number of slabs that were mapped.
  [[nodiscard]] std::size_t slabs_mapped() const noexcept;

 private:
  std::size_t initial_allocations_;
  std::int64_t initial_bytes_;
  slab_stats initial_slab_stats_;
};

/// Makes calls of operator new on the calling thread throw std::bad_alloc during its lifetime.
/// Slabs that have free blocks still allocate these.
///
/// Thread-safety: the thread that constructed it; one object at a time.
class failing_allocations {
 public:
  failing_allocations() noexcept;
  failing_allocations(const failing_allocations&) = delete;
  failing_allocations& operator=(const failing_allocations&) = delete;
  ~failing_allocations();
};

namespace detail {

/// Counts an allocation that did not use operator new, for example in a program that replaces
/// malloc.
void count_allocation() noexcept;

}  // namespace detail
}  // namespace gyre::testing

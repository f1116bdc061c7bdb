// SPDX-License-Identifier: Apache-2.0
// allocation_count: counts the allocations of a program within a region. Link
// gyre::testing_allocations, which also makes allocations fail.
//
//     const gyre::testing::allocation_count during;
//     answer(message);
//     EXPECT_EQ(during.allocations(), 0U);
//     EXPECT_EQ(during.slab_blocks(), 0);  // every frame was given back
//
// How it works: the library replaces operator new and operator delete of a program that links it
// and uses a name of this header, for all code of the program and its shared libraries. A program
// that replaces them itself cannot link it.
//
// Limits: malloc(3) is not counted, and of the memory in slabs only the blocks in use and the slabs
// that are mapped. ThreadSanitizer's runtime forbids the replacement: there all counts of
// operator new stay 0, no allocation fails, and allocations_are_counted() is false.
#pragma once

#include <gyre/base/slab.hpp>

#include <cstddef>
#include <cstdint>

namespace gyre::testing {

/// Whether operator new is replaced; false under ThreadSanitizer.
bool allocations_are_counted() noexcept;

/// Calls of operator new by all threads since the program began.
///
/// Thread-safety: any thread, as bytes_in_use() and bytes_held().
std::size_t allocations() noexcept;
/// Bytes from operator new that are in use, as malloc_usable_size(3) counts them.
std::int64_t bytes_in_use() noexcept;
/// Bytes that the program holds: from operator new, and in slabs after slab_trim().
std::int64_t bytes_held() noexcept;

/// The allocations of all threads since the object was made.
///
/// Thread-safety: none. To count exactly, let no other thread allocate meanwhile.
/// Complexity: the constructor and the members of slabs read the statistics of all heaps.
class allocation_count {
 public:
  allocation_count() noexcept;

  /// Calls of operator new. The first run of code may allocate what later runs reuse: warm up.
  [[nodiscard]] std::size_t allocations() const noexcept;
  /// Growth of bytes_in_use(); negative if more was freed.
  [[nodiscard]] std::int64_t bytes_in_use() const noexcept;
  /// Growth of the number of blocks in use in slabs: coroutine frames, posted callables and the
  /// like that were not given back.
  [[nodiscard]] std::int64_t slab_blocks() const noexcept;
  /// Slabs taken from the system.
  [[nodiscard]] std::size_t slabs_mapped() const noexcept;

 private:
  std::size_t initial_allocations_;
  std::int64_t initial_bytes_;
  slab_stats initial_slab_stats_;
};

/// Makes calls of operator new on the calling thread throw std::bad_alloc while the object lives.
/// Slabs that have free blocks still give them.
///
/// Thread-safety: the thread that made it; one at a time.
class failing_allocations {
 public:
  failing_allocations() noexcept;
  failing_allocations(const failing_allocations&) = delete;
  failing_allocations& operator=(const failing_allocations&) = delete;
  ~failing_allocations();
};

namespace detail {

/// Counts an allocation by other means, for a program that replaces malloc, say.
void count_allocation() noexcept;

}  // namespace detail
}  // namespace gyre::testing

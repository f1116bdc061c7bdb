// SPDX-License-Identifier: Apache-2.0
#include <gyre/testing/allocations.hpp>

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_THREAD__)
#define GYRE_TESTING_COUNTS 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GYRE_TESTING_COUNTS 0
#endif
#endif
#if !defined(GYRE_TESTING_COUNTS)
#define GYRE_TESTING_COUNTS 1
#endif

namespace gyre::testing {
namespace {

constinit std::atomic<std::size_t> allocation_total = 0;
constinit std::atomic<std::int64_t> byte_total = 0;
constinit thread_local bool allocations_fail = false;

#if GYRE_TESTING_COUNTS
// These functions are not inlined: otherwise GCC inlines new and delete, and warns of aligned_alloc
// paired with delete.
[[gnu::noinline]] void* counted_allocation(std::size_t size, std::size_t alignment) {
  ++allocation_total;
  if (allocations_fail) throw std::bad_alloc();
  const std::size_t rounded_size = (size + alignment - 1) / alignment * alignment;
  void* const memory = std::aligned_alloc(alignment, rounded_size);
  if (memory == nullptr) throw std::bad_alloc();
  byte_total += static_cast<std::int64_t>(malloc_usable_size(memory));
  return memory;
}
void* counted_or_null(std::size_t size, std::size_t alignment) noexcept {
  try {
    return counted_allocation(size, alignment);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
[[gnu::noinline]] void release_counted(void* memory) noexcept {
  byte_total -= static_cast<std::int64_t>(malloc_usable_size(memory));
  std::free(memory);
}
#endif

}  // namespace

bool allocations_are_counted() noexcept { return GYRE_TESTING_COUNTS != 0; }
std::size_t allocations() noexcept { return allocation_total; }
std::int64_t bytes_in_use() noexcept { return byte_total; }
std::int64_t bytes_held() noexcept {
  slab_trim();
  return byte_total + static_cast<std::int64_t>(read_slab_stats().bytes_held);
}

allocation_count::allocation_count() noexcept
    : initial_allocations_(testing::allocations()),
      initial_bytes_(testing::bytes_in_use()),
      initial_slab_stats_(read_slab_stats()) {}

std::size_t allocation_count::allocations() const noexcept {
  return testing::allocations() - initial_allocations_;
}
std::int64_t allocation_count::bytes_in_use() const noexcept {
  return testing::bytes_in_use() - initial_bytes_;
}
std::int64_t allocation_count::slab_blocks() const noexcept {
  return static_cast<std::int64_t>(read_slab_stats().blocks_in_use) -
         static_cast<std::int64_t>(initial_slab_stats_.blocks_in_use);
}
std::size_t allocation_count::slabs_mapped() const noexcept {
  return read_slab_stats().slabs_mapped - initial_slab_stats_.slabs_mapped;
}

failing_allocations::failing_allocations() noexcept { allocations_fail = true; }
failing_allocations::~failing_allocations() { allocations_fail = false; }

void detail::count_allocation() noexcept { ++allocation_total; }

}  // namespace gyre::testing

#if GYRE_TESTING_COUNTS
// Replaces every form of new and delete: those of AddressSanitizer's runtime do not call one
// another.
#define GYRE_TESTING_OPERATORS(suffix)                                                           \
  void* operator new suffix(std::size_t size) {                                                  \
    return gyre::testing::counted_allocation(size, alignof(std::max_align_t));                   \
  }                                                                                              \
  void* operator new suffix(std::size_t size, std::align_val_t alignment) {                      \
    return gyre::testing::counted_allocation(size, static_cast<std::size_t>(alignment));         \
  }                                                                                              \
  void* operator new suffix(std::size_t size, const std::nothrow_t&) noexcept {                  \
    return gyre::testing::counted_or_null(size, alignof(std::max_align_t));                      \
  }                                                                                              \
  void* operator new suffix(std::size_t size, std::align_val_t alignment,                        \
                            const std::nothrow_t&) noexcept {                                    \
    return gyre::testing::counted_or_null(size, static_cast<std::size_t>(alignment));            \
  }                                                                                              \
  void operator delete suffix(void* memory) noexcept { gyre::testing::release_counted(memory); } \
  void operator delete suffix(void* memory, std::size_t) noexcept {                              \
    gyre::testing::release_counted(memory);                                                      \
  }                                                                                              \
  void operator delete suffix(void* memory, std::align_val_t) noexcept {                         \
    gyre::testing::release_counted(memory);                                                      \
  }                                                                                              \
  void operator delete suffix(void* memory, std::size_t, std::align_val_t) noexcept {            \
    gyre::testing::release_counted(memory);                                                      \
  }
GYRE_TESTING_OPERATORS()
GYRE_TESTING_OPERATORS([])
#endif

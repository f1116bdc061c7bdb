// SPDX-License-Identifier: Apache-2.0
// Counts every allocation of a program and the bytes in use, and makes a thread's allocations fail.
// Include it in one source of a test program, whose operator new it replaces; not under
// ThreadSanitizer, whose runtime forbids the replacement.
#pragma once

#include <gyre/base/slab.hpp>

#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace gyre::test {

inline std::atomic<std::size_t> allocations = 0;
inline std::atomic<std::int64_t> bytes_in_use = 0;
inline constinit thread_local bool allocations_fail = false;

/// The bytes that the program holds: from operator new, and in slabs.
inline std::int64_t bytes_held() {
  slab_trim();
  return bytes_in_use + static_cast<std::int64_t>(read_slab_stats().bytes_held);
}

/// Makes allocations of the calling thread fail for the lifetime of the object.
class no_memory {
 public:
  no_memory() noexcept { allocations_fail = true; }
  no_memory(const no_memory&) = delete;
  no_memory& operator=(const no_memory&) = delete;
  ~no_memory() { allocations_fail = false; }
};

// Both are out of line: otherwise GCC inlines new and delete and finds aligned_alloc and free.
[[gnu::noinline]] inline void* counted_allocation(std::size_t size, std::size_t alignment) {
  ++allocations;
  if (allocations_fail) throw std::bad_alloc();
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  void* const memory = std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  bytes_in_use += static_cast<std::int64_t>(malloc_usable_size(memory));
  return memory;
}
[[gnu::noinline]] inline void release_counted(void* memory) noexcept {
  bytes_in_use -= static_cast<std::int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace gyre::test

void* operator new(std::size_t size) {
  return gyre::test::counted_allocation(size, alignof(std::max_align_t));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return gyre::test::counted_allocation(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  if (gyre::test::allocations_fail) return nullptr;
  return gyre::test::counted_allocation(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { gyre::test::release_counted(memory); }
void operator delete(void* memory, std::size_t) noexcept { gyre::test::release_counted(memory); }
void operator delete(void* memory, std::align_val_t) noexcept {
  gyre::test::release_counted(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  gyre::test::release_counted(memory);
}

// SPDX-License-Identifier: Apache-2.0
// Counts every allocation of a program and the bytes in use, and lets those of a thread fail.
// Include it in one source of a test program, which it gives its operator new; not under
// ThreadSanitizer, whose runtime does not let a program replace that.
#pragma once

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

/// The calling thread gets no memory as long as this lives.
class no_memory {
 public:
  no_memory() noexcept { allocations_fail = true; }
  no_memory(const no_memory&) = delete;
  no_memory& operator=(const no_memory&) = delete;
  ~no_memory() { allocations_fail = false; }
};

// Both out of line: GCC should not look through new and delete and find aligned_alloc and free.
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

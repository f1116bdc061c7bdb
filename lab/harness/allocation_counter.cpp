// SPDX-License-Identifier: Apache-2.0
// A library that, preloaded, counts the allocations of a process by interposing glibc's malloc.
// Only the functions that allocate are replaced: the blocks that they return come from glibc, so
// its free() accepts them. No contender links it, so timed runs have glibc's own malloc.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace lab {
namespace {

struct alignas(64) counter {
  std::atomic<std::uint64_t> allocations{0};
  std::atomic<std::uint64_t> bytes{0};
};

// One counter for each thread ever started; threads beyond that number share the last counter.
constinit std::array<counter, 256> counters;
constinit std::atomic<std::size_t> threads{0};
constinit thread_local counter* own_counter = nullptr;

// relaxed, here and below: a reader who needs an exact sum has synchronised with the threads by
// other means. Load and store rather than fetch_add: an owned counter has one writer.
inline void add_alone(std::atomic<std::uint64_t>& sum, std::uint64_t more) noexcept {
  sum.store(sum.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

inline void count(std::size_t bytes) noexcept {
  if (own_counter == nullptr) [[unlikely]] {
    // relaxed: only the number matters; no other data is published with it.
    own_counter =
        &counters[std::min(threads.fetch_add(1, std::memory_order_relaxed), counters.size() - 1)];
  }
  if (own_counter != &counters.back()) [[likely]] {
    add_alone(own_counter->allocations, 1);
    add_alone(own_counter->bytes, bytes);
  } else {
    own_counter->allocations.fetch_add(1, std::memory_order_relaxed);
    own_counter->bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
}

}  // namespace
}  // namespace lab

extern "C" {

/// The number of allocations so far and the bytes that they requested: see lab::allocations().
void gyre_lab_read_allocations(std::uint64_t* allocations, std::uint64_t* bytes) noexcept {
  *allocations = *bytes = 0;
  for (const lab::counter& each : lab::counters) {
    *allocations += each.allocations.load(std::memory_order_relaxed);
    *bytes += each.bytes.load(std::memory_order_relaxed);
  }
}

void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t size) noexcept {
  lab::count(size);
  return __libc_malloc(size);
}

void* calloc(std::size_t number, std::size_t size) noexcept {
  lab::count(number * size);
  return __libc_calloc(number, size);
}

void* realloc(void* block, std::size_t size) noexcept {
  lab::count(size);
  return __libc_realloc(block, size);
}

void* memalign(std::size_t alignment, std::size_t size) noexcept {
  lab::count(size);
  return __libc_memalign(alignment, size);
}

void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  lab::count(size);
  return __libc_memalign(alignment, size);
}

int posix_memalign(void** block, std::size_t alignment, std::size_t size) noexcept {
  if (alignment % sizeof(void*) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0) {
    return EINVAL;
  }
  lab::count(size);
  void* const taken = __libc_memalign(alignment, size);
  if (taken == nullptr) return ENOMEM;
  *block = taken;
  return 0;
}

}  // extern "C"

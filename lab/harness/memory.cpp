// SPDX-License-Identifier: Apache-2.0
// Counts allocations by interposing glibc's malloc. Only the functions that allocate are replaced:
// the blocks that they return come from glibc, so its free() accepts them.
#include <lab/harness/memory.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define GYRE_LAB_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GYRE_LAB_SANITIZED
#endif

namespace lab {
namespace {

// The value in KiB of a line of /proc/self/status, as bytes.
std::uint64_t status_bytes(std::string_view key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (std::uint64_t kibibytes = 0; word == key && status >> kibibytes) return kibibytes * 1024;
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

}  // namespace

std::uint64_t peak_memory_bytes() { return status_bytes("VmHWM:"); }

std::uint64_t resident_bytes() { return status_bytes("VmRSS:"); }

}  // namespace lab

#ifdef GYRE_LAB_SANITIZED

namespace lab {
std::optional<std::uint64_t> allocations() { return std::nullopt; }
std::optional<std::uint64_t> allocated_bytes() { return std::nullopt; }
}  // namespace lab

#else

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

std::optional<std::uint64_t> allocations() {
  std::uint64_t sum = 0;
  for (const counter& each : counters) sum += each.allocations.load(std::memory_order_relaxed);
  return sum;
}

std::optional<std::uint64_t> allocated_bytes() {
  std::uint64_t sum = 0;
  for (const counter& each : counters) sum += each.bytes.load(std::memory_order_relaxed);
  return sum;
}

}  // namespace lab

extern "C" {

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

#endif

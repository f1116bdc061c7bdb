// SPDX-License-Identifier: Apache-2.0
// block_cache: the blocks that a thread freed and may use again, and the fast paths to them, which
// coroutines inline.
#pragma once

#include <gyre/base/cache_line.hpp>
#include <gyre/base/detail/sanitizer.hpp>
#include <gyre/base/detail/slab_class.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gyre::detail {

/// A free block. While it is in a list of its slab or in a cache, the whole block is poisoned for
/// AddressSanitizer.
struct free_block {
  free_block* next;
};

/// The header of 64 KiB of blocks, found by a block's address alone: the header is in the first 4
/// KiB, at one of 64 offsets that the address of the slab determines, because headers at equal
/// offsets would compete for one set of the caches ("colouring", Bonwick 1994). The base of slab.
class slab_header {
 public:
  static constexpr std::size_t bytes = 64 * 1024;
  /// Returns the header of the slab that `block` was cut from.
  static slab_header& of(void* block) noexcept {
    return *at(reinterpret_cast<std::uintptr_t>(block));
  }
  std::size_t size_class() const noexcept { return size_class_; }

 protected:
  constexpr slab_header() noexcept = default;
  static slab_header* at(std::uintptr_t address) noexcept {
    constexpr std::uintptr_t colours = 64;
    const std::uintptr_t start = address & ~std::uintptr_t{bytes - 1};
    return reinterpret_cast<slab_header*>(start + address / bytes % colours * cache_line_size);
  }

  std::uint32_t size_class_ = 0;
};

/// Blocks of each class that a thread freed and may use again; the last one freed is used first.
/// The slabs count these blocks as in use.
class block_cache {
 public:
  static constexpr std::uint32_t max_blocks = 128;

  /// Removes and returns the block freed last; null if there is none.
  free_block* pop(std::size_t size_class) noexcept {
    const std::uint32_t count = counts_[size_class].load(std::memory_order_relaxed);
    if (count == 0) [[unlikely]]
      return nullptr;
    counts_[size_class].store(count - 1, std::memory_order_relaxed);
    return blocks_[size_class][count - 1];
  }
  /// Adds `block`. Returns false if the cache of the class is full.
  bool push(free_block* block, std::size_t size_class) noexcept {
    const std::uint32_t count = counts_[size_class].load(std::memory_order_relaxed);
    if (count >= limits_[size_class]) [[unlikely]]
      return false;
    blocks_[size_class][count] = block;
    counts_[size_class].store(count + 1, std::memory_order_relaxed);
    return true;
  }

 protected:
  constexpr block_cache() noexcept = default;

  // The counts are atomic only because other threads read them as statistics; the owner writes
  // them. relaxed: the counts order nothing.
  std::array<std::atomic<std::uint32_t>, slab_class_count> counts_{};
  std::array<std::uint32_t, slab_class_count> limits_{};
  std::array<std::array<free_block*, max_blocks>, slab_class_count> blocks_{};
};

/// The cache of the calling thread. Threads that have no cache, or no longer, share one that is
/// empty and takes no block.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local block_cache* blocks_here;

/// Whether coroutines look into their thread's cache inline. A chain of a thousand different
/// coroutines then has two branches fewer in each, and fits into the processor's table of branches.
/// False with AddressSanitizer and the model checker, which must see each allocation.
#if defined(GYRE_MODEL_CHECK) || (defined(__clang__) && !defined(__x86_64__))
inline constexpr bool caches_frames_inline = false;
#else
inline constexpr bool caches_frames_inline = !asan_is_on;
#endif

/// Returns `blocks_here`. Coroutines must call this function: Clang may keep the address of a
/// thread-local across a suspension, after which the coroutine may be on another thread, so the
/// address is computed in assembly.
[[gnu::always_inline]] inline block_cache* blocks_of_this_thread() noexcept {
#if defined(__clang__) && defined(__x86_64__)
  block_cache* blocks = nullptr;
  asm volatile(
      "movq _ZN4gyre6detail11blocks_hereE@gottpoff(%%rip), %0\n\t"
      "movq %%fs:(%0), %0"
      : "=r"(blocks));
  return blocks;
#else
  return blocks_here;
#endif
}

/// Allocates the frame of a coroutine like slab_allocate_class(), with the fast path inline.
[[gnu::always_inline]] inline void* allocate_frame(std::size_t size_class) {
  if constexpr (caches_frames_inline) {
    free_block* const block = blocks_of_this_thread()->pop(size_class);
    if (block != nullptr) [[likely]]
      return block;
  }
  return slab_allocate_class(size_class);
}

/// Frees the frame of a coroutine like slab_deallocate_frame(), with the fast path inline.
[[gnu::always_inline]] inline void deallocate_frame(void* frame) noexcept {
  if constexpr (caches_frames_inline) {
    auto* const block = static_cast<free_block*>(frame);
    if (blocks_of_this_thread()->push(block, slab_header::of(frame).size_class())) [[likely]]
      return;
  }
  slab_deallocate_frame(frame);
}

}  // namespace gyre::detail

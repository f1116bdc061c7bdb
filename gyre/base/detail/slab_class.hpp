// SPDX-License-Identifier: Apache-2.0
// slab_class: the sizes of blocks, and functions for callers that know the size class at compile
// time.
#pragma once

#include <gyre/base/slab.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace gyre::detail {

/// Block sizes, in bytes: steps of 16 up to 256, the usual sizes of frames and connections; above
/// that, rounding wastes less than a third of a block.
inline constexpr std::array<std::uint16_t, 26> slab_class_bytes{
    16,  32,  48,  64,  80,  96,  112, 128, 144,  160,  176,  192,  208,
    224, 240, 256, 320, 384, 512, 640, 768, 1024, 1536, 2048, 3072, 4096};
inline constexpr std::size_t slab_class_count = slab_class_bytes.size();
static_assert(slab_class_bytes.back() == slab_max_bytes);
// Slabs begin with a cache line, so the blocks of a class of whole lines are aligned to lines;
// every size of whole lines has such a class.
static_assert([] {
  for (std::size_t bytes = 64, index = 0; bytes <= slab_max_bytes; bytes += 64) {
    while (slab_class_bytes[index] < bytes) ++index;
    if (slab_class_bytes[index] % 64 != 0) return false;
  }
  return true;
}());

/// Returns the smallest class that holds `bytes`, which is at most slab_max_bytes.
inline std::size_t slab_class_of(std::size_t bytes) noexcept {
  static constexpr auto table = [] {
    std::array<std::uint8_t, slab_max_bytes / slab_alignment + 1> classes{};
    for (std::size_t units = 0, index = 0; units < classes.size(); ++units) {
      if (units * slab_alignment > slab_class_bytes[index]) ++index;
      classes[units] = static_cast<std::uint8_t>(index);
    }
    return classes;
  }();
  return table[(bytes + slab_alignment - 1) / slab_alignment];
}

/// Allocates like slab_allocate(), for short-lived blocks such as coroutine frames: takes a block
/// from a small stack of the thread. If the stack is empty, fills half of it from the slabs first.
[[nodiscard]] void* slab_allocate_class(std::size_t size_class);

/// Frees `memory`, a block of slab_allocate_class(); not null. The calling thread keeps up to 128
/// blocks of each class for its next allocations, at most 32 KiB but always four blocks, including
/// blocks of other threads; further blocks return to their slabs.
void slab_deallocate_class(void* memory, std::size_t size_class) noexcept;

/// Frees a block like slab_deallocate_class(), with the size class of the block's slab.
void slab_deallocate_frame(void* memory) noexcept;

}  // namespace gyre::detail

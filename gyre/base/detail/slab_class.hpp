// SPDX-License-Identifier: Apache-2.0
// slab_class: the sizes of a slab's blocks, for callers that know the size at compile time and
// save the look-up.
#pragma once

#include <gyre/base/slab.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace gyre::detail {

/// Block sizes: in steps of 16 to 256 bytes, where frames and connections are; above, less than a
/// third of a block is lost to rounding.
inline constexpr std::array<std::uint16_t, 26> slab_class_bytes{
    16,  32,  48,  64,  80,  96,  112, 128, 144,  160,  176,  192,  208,
    224, 240, 256, 320, 384, 512, 640, 768, 1024, 1536, 2048, 3072, 4096};
inline constexpr std::size_t slab_class_count = slab_class_bytes.size();
static_assert(slab_class_bytes.back() == slab_max_bytes);
// Slabs begin with a cache line, so the blocks of a class of whole lines are aligned to lines, and
// whatever consists of whole lines gets such a class.
static_assert([] {
  for (std::size_t bytes = 64, index = 0; bytes <= slab_max_bytes; bytes += 64) {
    while (slab_class_bytes[index] < bytes) ++index;
    if (slab_class_bytes[index] % 64 != 0) return false;
  }
  return true;
}());

/// The smallest class that holds `bytes`, which is at most slab_max_bytes.
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

/// As slab_allocate(), for blocks of a class that come and go in quick succession, such as
/// coroutine frames: they pass through a small stack of the thread, filled and emptied by halves,
/// before the slabs.
[[nodiscard]] void* slab_allocate_class(std::size_t size_class);

/// As slab_deallocate(), for a block of slab_allocate_class(); not null. The calling thread keeps
/// some blocks for its next allocations (of each class at most 128 and 32 KiB, but at least four),
/// also blocks of other threads; further blocks return to their slabs.
void slab_deallocate_class(void* memory, std::size_t size_class) noexcept;

/// As slab_deallocate_class(), of the class that the block's slab has.
void slab_deallocate_frame(void* memory) noexcept;

}  // namespace gyre::detail

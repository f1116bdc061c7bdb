// SPDX-License-Identifier: Apache-2.0
// page_size, map_zeroed, prefer_huge_pages: the pages of the system's memory.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <span>

namespace gyre::detail {

/// Returns the size of a page in bytes, a power of two.
inline std::size_t page_size() noexcept {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

/// Maps `bytes` bytes of zeros for the rest of the program; returns null without memory. Pages take
/// memory once they are written.
inline void* map_zeroed(std::size_t bytes) noexcept {
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

/// Requests huge pages for memory that is aligned to them. Only a hint, without effect if the
/// administrator has disabled huge pages.
inline void prefer_huge_pages(std::span<std::byte> memory) noexcept {
  ::madvise(memory.data(), memory.size(), MADV_HUGEPAGE);
}

}  // namespace gyre::detail

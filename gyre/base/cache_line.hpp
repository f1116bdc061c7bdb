// SPDX-License-Identifier: Apache-2.0
// cache_line_size, false_sharing_range: the size of a cache line, and the distance that prevents
// false sharing.
#pragma once

#include <cstddef>

namespace gyre {

/// The usual length of a cache line in bytes; data used together should share a line. A constant
/// instead of std::hardware_constructive_interference_size, whose value changes with -mtune and
/// would make layouts differ between translation units.
inline constexpr std::size_t cache_line_size = 64;

/// The alignment, in bytes, that prevents false sharing of data written by different threads. Two
/// lines, because x86's adjacent-line prefetcher fetches lines in pairs of 128 bytes (Intel
/// optimisation manual, 3.7.3), and the lines of Apple's and some server ARM cores are 128 bytes
/// long.
inline constexpr std::size_t false_sharing_range = 128;

namespace detail {

/// Hints that the line at `address`, which need not be valid, will soon be written by this core.
inline void prefetch_to_write(const void* address) noexcept {
#if defined(__x86_64__)
  // The builtin falls back to a prefetch for reading on the baseline of x86-64, so this is
  // assembly. Every 64-bit processor accepts the instruction, if only as a no-operation.
  __asm__ volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

/// Hints that the line at `address` will next be used by another core: moves the line to the cache
/// that both cores share, from which the other core loads it faster. Does nothing on processors
/// without CLDEMOTE.
inline void demote_cache_line(const void* address) noexcept {
#if defined(__x86_64__)
  __asm__ volatile("cldemote %0" : : "m"(*static_cast<const char*>(address)));
#else
  static_cast<void>(address);
#endif
}

}  // namespace detail

}  // namespace gyre

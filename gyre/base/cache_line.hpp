// SPDX-License-Identifier: Apache-2.0
// cache_line_size, false_sharing_range: distances at which data shares a cache line, or does not.
#pragma once

#include <cstddef>

namespace gyre {

/// The usual length of a cache line in bytes; data used together should share a line.
/// A constant and not std::hardware_constructive_interference_size, whose value changes with
/// -mtune and would make layouts differ between translation units.
inline constexpr std::size_t cache_line_size = 64;

/// The alignment that keeps data written by different threads apart, in bytes. Two lines: x86's
/// adjacent-line prefetcher fetches lines in pairs of 128 bytes (Intel optimisation manual, 3.7.3),
/// and the lines of Apple's and some server ARM cores are 128 bytes long.
inline constexpr std::size_t false_sharing_range = 128;

namespace detail {

/// Hints that the line at `address`, which need not be valid, will soon be written by this core.
inline void prefetch_to_write(const void* address) noexcept {
#if defined(__x86_64__)
  // Spelled out: for the baseline of x86-64 the builtin falls back to a prefetch for reading. Every
  // 64-bit processor accepts the instruction, if only as a no-operation.
  __asm__ volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

/// Hints that the line at `address` will next be used by another core: it moves to the cache they
/// share, where that core finds it sooner than in ours. Does nothing without CLDEMOTE.
inline void demote_cache_line(const void* address) noexcept {
#if defined(__x86_64__)
  __asm__ volatile("cldemote %0" : : "m"(*static_cast<const char*>(address)));
#else
  static_cast<void>(address);
#endif
}

}  // namespace detail

}  // namespace gyre

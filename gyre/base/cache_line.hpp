// SPDX-License-Identifier: Apache-2.0
// cache_line_size, false_sharing_range: the distance that keeps writers on different cores apart.
#pragma once

#include <cstddef>

namespace gyre {

/// Bytes the processor moves between caches at once; data used together should share one.
/// A constant and not std::hardware_constructive_interference_size, whose value changes with
/// -mtune and would make layouts differ between translation units.
inline constexpr std::size_t cache_line_size = 64;

/// Bytes by which data written by different threads is kept apart. Two lines: x86's adjacent-line
/// prefetcher fetches lines in pairs of 128 bytes (Intel optimisation manual, 3.7.3), and the
/// lines of Apple's and some server ARM cores are 128 bytes long.
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
/// share, where that core finds it sooner than in ours. Nothing where the processor has no such
/// instruction (the code is a no-operation on x86 processors without CLDEMOTE).
inline void demote_cache_line(const void* address) noexcept {
#if defined(__x86_64__)
  __asm__ volatile("cldemote %0" : : "m"(*static_cast<const char*>(address)));
#else
  static_cast<void>(address);
#endif
}

}  // namespace detail

}  // namespace gyre

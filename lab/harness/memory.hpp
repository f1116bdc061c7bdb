// SPDX-License-Identifier: Apache-2.0
// What a run cost in memory: how often it allocated, and how much it held at its peak.
#pragma once

#include <cstdint>
#include <optional>

namespace lab {

/// How often the process has allocated so far, on all threads, by `new` or by the malloc family
/// (one `new` counts once, as does a realloc). Nothing under a sanitizer, which brings its own
/// malloc. Any thread; exact for threads that are joined or otherwise synchronised with.
///
/// Linking this function replaces malloc by one that adds to two counters of the calling thread and
/// goes on to the C library: about a nanosecond per allocation, the same for every contender.
/// Memory taken by mmap directly is not counted here, but is part of the peak.
std::optional<std::uint64_t> allocations();

/// How many bytes these allocations asked for, whether or not they have been freed.
std::optional<std::uint64_t> allocated_bytes();

/// The most memory the process has had resident, in bytes, since it was started; 0 if /proc cannot
/// be read. Not from getrusage, whose figure survives exec and would include the runner's memory.
std::uint64_t peak_memory_bytes();

/// How much memory the process has resident now, in bytes; 0 if /proc cannot be read.
std::uint64_t resident_bytes();

}  // namespace lab

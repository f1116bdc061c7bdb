// SPDX-License-Identifier: Apache-2.0
// Memory use of a run: the number of allocations, and the peak of resident memory.
#pragma once

#include <cstdint>
#include <optional>

namespace lab {

/// The number of allocations that the process has made so far, on all threads, by `new` or by the
/// malloc family (one `new` counts once, as does a realloc). Empty in a process that does not count
/// them: see count_allocations(). Memory taken by mmap directly is not counted here, but is part of
/// the peak.
/// Thread-safety: any thread; exact for threads that are joined or otherwise synchronised with.
std::optional<std::uint64_t> allocations();

/// The bytes that these allocations requested, whether or not they have been freed.
std::optional<std::uint64_t> allocated_bytes();

/// Replaces the process by one that runs the same program with these arguments and counts its
/// allocations. Returns in a process that counts, and under a sanitizer, which has its own malloc.
/// A library preloaded in place of malloc is left out of the new process.
/// Errors: throws std::runtime_error when the counting library cannot be preloaded.
/// Complexity: each allocation of the new process adds to two counters of the calling thread: about
/// a nanosecond. A process that does not count has the C library's malloc.
void count_allocations(const char* const* argv);

/// The peak of the process's resident memory, in bytes; 0 if /proc cannot be read. Not from
/// getrusage, whose figure survives exec and would include the runner's memory.
std::uint64_t peak_memory_bytes();

/// The process's resident memory now, in bytes; 0 if /proc cannot be read.
std::uint64_t resident_bytes();

}  // namespace lab

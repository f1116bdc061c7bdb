// SPDX-License-Identifier: Apache-2.0
// slab: an allocator for small, short-lived objects such as posted callables and coroutine frames.
//
// Each thread owns a heap of 64 KiB slabs, every slab cut into blocks of one size. Allocation pops
// from a list that only the owner uses, and freeing pushes to it. A block freed by another thread
// is pushed to a lock-free stack of its heap; the owner takes the whole stack when a list of its
// own is empty. So memory that one thread allocates and another frees is reused instead of piling
// up. The heap of a thread that ends waits for a new thread to adopt it, and until then unmaps
// empty slabs.
//
// Sources: Bonwick, "The slab allocator", 1994 (slabs, colouring); Leijen, Zorn and de Moura,
// "Mimalloc: free list sharding in action", 2019 (lists per slab, the remote list, and learning
// that a slab is full only when the list is empty).
#pragma once

#include <cstddef>
#include <cstdint>

namespace gyre {

/// Alignment of every block, in bytes.
inline constexpr std::size_t slab_alignment = 16;

/// Largest request served from slabs, in bytes; larger ones go to operator new.
inline constexpr std::size_t slab_max_bytes = 4096;

/// The default of slab_cache_limit(), in bytes.
inline constexpr std::size_t default_slab_cache_limit = std::size_t{16} << 20;

/// Returns at least `bytes` bytes aligned to slab_alignment; a size of zero gets the smallest
/// block. Throws std::bad_alloc. Any thread, also while its thread-locals are destroyed and
/// afterwards, and in a forked child. Some 2 ns, without atomic read-modify-write; more when a list
/// is refilled, and system calls when slabs are mapped.
[[nodiscard]] void* slab_allocate(std::size_t bytes);

/// Frees a block of slab_allocate(bytes) with the same `bytes`; ignores a null pointer. Any thread:
/// some 2 ns on the thread that allocated the block, one compare-and-swap on other threads. May
/// unmap empty slabs.
void slab_deallocate(void* memory, std::size_t bytes) noexcept;

/// Releases the calling thread's caches: collects its blocks that other threads freed, frees the
/// coroutine frames that it keeps for reuse, and returns empty slabs to the system. Meant for a
/// thread that will not allocate for a while. O(blocks and slabs).
void slab_trim() noexcept;

/// Sets how many bytes in empty slabs each thread may keep. With one more, a sixteenth of them is
/// returned to the system. One slab per size class in use is not counted. Any thread.
void set_slab_cache_limit(std::size_t bytes) noexcept;

/// Returns the limit in force for each thread, in bytes.
std::size_t slab_cache_limit() noexcept;

/// Sums over all threads. Each sum is exact if no thread allocates or frees meanwhile.
struct slab_stats {
  std::size_t bytes_held = 0;        ///< mapped for slabs
  std::size_t bytes_cached = 0;      ///< part of bytes_held: empty slabs within the limit
  std::size_t bytes_parked = 0;      ///< in freed coroutine frames that threads keep for reuse
  std::size_t blocks_in_use = 0;     ///< allocated, less the frees that heaps have seen
  std::size_t heaps = 0;             ///< the peak number of threads that used slabs at once
  std::uint64_t remote_frees = 0;    ///< blocks collected after another thread freed them
  std::uint64_t slabs_mapped = 0;    ///< taken from the system since the program started
  std::uint64_t slabs_unmapped = 0;  ///< returned to the system
};

/// Reads the statistics. Any thread. O(heaps).
slab_stats read_slab_stats() noexcept;

}  // namespace gyre

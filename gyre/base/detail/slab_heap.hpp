// SPDX-License-Identifier: Apache-2.0
// slab_heap: the slabs that one thread owns at a time, and from which slab_allocate() takes blocks.
#pragma once

#include <gyre/base/cache_line.hpp>
#include <gyre/base/detail/block_cache.hpp>
#include <gyre/base/detail/relaxed_counter.hpp>
#include <gyre/base/detail/remote_free_list.hpp>
#include <gyre/base/detail/sanitizer.hpp>
#include <gyre/base/detail/slab_class.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/slab.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace gyre::detail {

class slab_heap;

/// 64 KiB of blocks of one class, and the header that manages them.
class alignas(cache_line_size) slab : public slab_header, public intrusive_list_node {
 public:
  /// Constructs a slab without blocks, for no_slab only.
  constexpr slab() noexcept = default;
  /// Makes a slab of the mapped memory at `start`, which is aligned to `bytes`.
  static slab& make(std::byte* start, slab_heap& owner) noexcept;
  /// Returns slabs without used blocks to the system, slabs that lie side by side by one call of
  /// the system. Sorts `unused_slabs` by their addresses.
  static void unmap(std::span<slab*> unused_slabs) noexcept;
  /// Returns the slab that `block` was cut from.
  static slab& of(void* block) noexcept { return static_cast<slab&>(slab_header::of(block)); }
  /// Sets the class of this slab, which has no used blocks, to `size_class`.
  void assign(std::size_t size_class) noexcept;

  slab_heap& owner() const noexcept { return *owner_; }
  bool has_free() const noexcept { return free_blocks_ != nullptr; }
  /// Takes a block, whose link is not poisoned any more, from the free list; returns null if that
  /// list is empty.
  free_block* pop() noexcept {
    free_block* block = free_blocks_;
    if (block == nullptr) [[unlikely]]
      return nullptr;
    unpoison(block, sizeof(free_block));
    free_blocks_ = block->next;
    ++used_count_;
    return block;
  }
  /// Adds a freed block to the free list. Returns whether the slab must move to another list,
  /// because it is unused now or was full.
  bool push(free_block* block) noexcept {
    link(block);
    return --used_count_ <= 0;
  }
  /// Cuts more blocks from memory that was not used so far. Returns false if none is left.
  bool cut() noexcept;

  // `used_count_` counts the blocks in use, plus one while the slab is the current one of its
  // class, so that the current slab does not count as empty, minus full_bias while the slab is full
  // and in no list.
  void pin() noexcept { ++used_count_; }
  void unpin() noexcept { --used_count_; }
  bool is_unused() const noexcept { return used_count_ == 0; }
  bool is_exhausted() const noexcept { return free_blocks_ == nullptr && uncut_ == end_; }
  void mark_full() noexcept { used_count_ -= full_bias; }
  bool clear_full() noexcept {
    if (used_count_ >= 0) return false;
    used_count_ += full_bias;
    return true;
  }

 private:
  static constexpr std::int32_t full_bias = 1 << 20;  // larger than the number of blocks in a slab

  explicit slab(slab_heap& owner) noexcept : owner_{&owner} {}

  std::byte* start() noexcept {
    return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(this) &
                                        ~std::uintptr_t{bytes - 1});
  }
  std::byte* first_block() noexcept { return reinterpret_cast<std::byte*>(this + 1); }

  void link(free_block* block) noexcept {
    unpoison(block, sizeof(free_block));
    block->next = free_blocks_;
    free_blocks_ = block;
    poison(block, block_bytes_);
  }

  free_block* free_blocks_ = nullptr;
  slab_heap* owner_ = nullptr;
  std::byte* uncut_ = nullptr;  // from here to end_, the memory is not yet cut into blocks
  std::byte* end_ = nullptr;
  std::int32_t used_count_ = 0;
  std::uint16_t block_bytes_ = 0;
};

static_assert(sizeof(slab) == cache_line_size);

/// Holds a static object that stays usable while other static objects are destroyed.
template <typename T>
union never_destroyed {
  constexpr never_destroyed() noexcept : object{} {}
  constexpr ~never_destroyed() {}
  T object;
};

/// The current slab of the classes for which a heap has no slab; never written.
inline constinit never_destroyed<slab> no_slab;

/// The slabs of one thread. Heaps are never destroyed: the heap of a thread that has ended is
/// adopted by a later thread or, for one operation, by a thread that frees one of its blocks.
///
/// Thread-safety: members marked "any thread" may be called from any thread, the other members by
/// the owner.
class slab_heap : public block_cache {
 public:
  constexpr slab_heap() noexcept { current_slabs_.fill(&no_slab.object); }
  slab_heap& operator=(slab_heap&&) = delete;

  /// Makes the caller the owner of a heap without owner, or of a new one. Throws std::bad_alloc.
  /// Any thread. O(heaps).
  static slab_heap& claim_any();
  /// Returns the first of all heaps, which are linked by next(). Any thread.
  static slab_heap* first() noexcept;
  slab_heap* next() const noexcept { return next_; }
  /// Takes a block from the free list of the current slab; returns null if the list is empty.
  free_block* try_allocate(std::size_t size_class) noexcept {
    free_block* block = current_slabs_[size_class]->pop();
    if (block != nullptr) [[likely]]
      in_use_.add(1);
    return block;
  }
  /// Takes a block, if necessary from a new slab. Throws std::bad_alloc.
  free_block* allocate(std::size_t size_class);
  /// Frees a block of `source`, a slab of this heap.
  void deallocate(slab& source, free_block* block) noexcept {
    in_use_.subtract(1);
    if (source.push(block)) [[unlikely]]
      move_to_matching_list(source);
  }
  /// Frees a block of a slab of this heap. Called by a thread that does not own the heap.
  void give_back(free_block* block) noexcept;
  /// Frees a block of any heap, by deallocate() or give_back().
  void return_block(free_block* block) noexcept {
    slab& source = slab::of(block);
    slab_heap& owner = source.owner();
    if (&owner == this) [[likely]] {
      deallocate(source, block);
    } else {
      owner.give_back(block);
    }
  }
  /// Collects the blocks that other threads freed, empties the cache, and unmaps all unused slabs.
  void trim() noexcept;
  /// Moves blocks of the current slab into the cache of the class, which is empty, until that is
  /// half full.
  void fill_cache(std::size_t size_class) noexcept;
  /// Returns the older half of the class's cached blocks, which may belong to other heaps, to their
  /// slabs.
  void halve_cache(std::size_t size_class) noexcept;
  /// Calls trim() and gives up ownership.
  void abandon() noexcept;
  /// Adds the counters of this heap. Any thread.
  void add_to(slab_stats& stats) const noexcept;

 private:
  void take_remote_frees() noexcept;
  void open_cache() noexcept;
  void empty_cache() noexcept;
  void return_cached(free_block* block, std::size_t size_class) noexcept;
  void move_to_matching_list(slab& target) noexcept;
  void retire_current(std::size_t size_class) noexcept;
  slab& next_slab(std::size_t size_class);
  slab& new_slab();
  void unmap_oldest(std::size_t slabs) noexcept;
  void give_up_ownership() noexcept;

  std::array<slab*, slab_class_count> current_slabs_;  // the slabs that blocks are allocated from
  // The other slabs with free blocks.
  std::array<intrusive_list<slab>, slab_class_count> with_free_{};
  intrusive_list<slab> empty_slabs_;  // the unused slabs, the newest first
  std::size_t empty_count_ = 0;
  std::byte* reserved_memory_ = nullptr;  // mapped memory for the next reserved_count_ slabs
  std::size_t reserved_count_ = 0;

  relaxed_counter in_use_, remote_frees_, mapped_, unmapped_, cached_;

  slab_heap* next_ = nullptr;
  alignas(false_sharing_range) remote_free_list<free_block> given_back_;
};

}  // namespace gyre::detail

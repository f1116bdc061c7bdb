// SPDX-License-Identifier: Apache-2.0
// slab_heap: the slabs that one thread owns at a time, and from which slab_allocate() takes blocks.
#pragma once

#include <gyre/base/cache_line.hpp>
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

namespace gyre::detail {

/// A free block. In a list of its slab all of it is poisoned for AddressSanitizer.
struct free_block {
  free_block* next;
};

class slab_heap;

/// The head of 64 KiB of blocks, found by a block's address alone: it stands in the first 4 KiB, at
/// one of 64 offsets given by the number of the slab, since heads at equal offsets would compete
/// for one set of the caches ("colouring", Bonwick 1994).
class alignas(cache_line_size) slab : public intrusive_list_node {
 public:
  static constexpr std::size_t bytes = 64 * 1024;
  /// For slab_heap::no_slab only: offers no block.
  constexpr slab() noexcept = default;
  /// Maps a slab. Throws std::bad_alloc.
  static slab& map(slab_heap& owner);
  /// Returns a slab without used blocks to the system.
  static void unmap(slab& empty) noexcept;
  /// The slab that `block` was cut from.
  static slab& of(void* block) noexcept {
    return *head_of(reinterpret_cast<std::uintptr_t>(block));
  }
  /// Makes a slab without used blocks one of `size_class`.
  void assign(std::size_t size_class) noexcept;

  slab_heap& owner() const noexcept { return *owner_; }
  std::size_t size_class() const noexcept { return size_class_; }
  bool has_free() const noexcept { return free_ != nullptr; }
  /// Takes a free block, all of it poisoned; null when the list is empty.
  free_block* pop() noexcept {
    free_block* block = free_;
    if (block == nullptr) [[unlikely]]
      return nullptr;
    unpoison(block, sizeof(free_block));
    free_ = block->next;
    ++used_;
    return block;
  }
  /// Takes back a block. Returns whether the slab must change its list: it is unused now, or was
  /// full.
  bool push(free_block* block) noexcept {
    link(block);
    return --used_ <= 0;
  }
  /// Cuts some more blocks from memory not used so far; false if there is none left.
  bool cut() noexcept;

  // `used_` counts the blocks in use, plus one while the slab is the current one of its class, so
  // that it does not count as empty; less full_bias while the slab is full and in no list.
  void pin() noexcept { ++used_; }
  void unpin() noexcept { --used_; }
  bool is_unused() const noexcept { return used_ == 0; }
  bool is_exhausted() const noexcept { return free_ == nullptr && uncut_ == end_; }
  void mark_full() noexcept { used_ -= full_bias; }
  bool clear_full() noexcept {
    if (used_ >= 0) return false;
    used_ += full_bias;
    return true;
  }

 private:
  static constexpr std::size_t colours = 64;
  static constexpr std::int32_t full_bias = 1 << 20;  // more than blocks in a slab

  explicit slab(slab_heap& owner) noexcept : owner_{&owner} {}

  static slab* head_of(std::uintptr_t address) noexcept {
    const std::uintptr_t start = address & ~std::uintptr_t{bytes - 1};
    const std::uintptr_t colour = (address / bytes) % colours;
    return reinterpret_cast<slab*>(start + colour * cache_line_size);
  }
  std::byte* start() noexcept {
    return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(this) &
                                        ~std::uintptr_t{bytes - 1});
  }
  std::byte* first_block() noexcept { return reinterpret_cast<std::byte*>(this + 1); }

  void link(free_block* block) noexcept {
    unpoison(block, sizeof(free_block));
    block->next = free_;
    free_ = block;
    poison(block, block_bytes_);
  }

  free_block* free_ = nullptr;
  slab_heap* owner_ = nullptr;
  std::byte* uncut_ = nullptr;  // from here to end_ no block has been cut
  std::byte* end_ = nullptr;
  std::int32_t used_ = 0;
  std::uint16_t block_bytes_ = 0;
  std::uint16_t size_class_ = 0;
};

static_assert(sizeof(slab) == cache_line_size);

/// A static object that stays usable while other static objects are destroyed.
template <typename T>
union never_destroyed {
  constexpr never_destroyed() noexcept : object{} {}
  constexpr ~never_destroyed() {}
  T object;
};

/// The current slab of a class that has none; never written.
inline constinit never_destroyed<slab> no_slab;

/// Blocks of each class that a thread freed and may use again, the last first. Their slabs count
/// them as in use.
class block_cache {
 public:
  /// Null when there is none.
  free_block* pop(std::size_t size_class) noexcept {
    const std::uint32_t count = counts_[size_class].load(std::memory_order_relaxed);
    if (count == 0) [[unlikely]]
      return nullptr;
    counts_[size_class].store(count - 1, std::memory_order_relaxed);
    return blocks_[size_class][count - 1];
  }
  /// False when the class is full.
  bool push(free_block* block, std::size_t size_class) noexcept {
    const std::uint32_t count = counts_[size_class].load(std::memory_order_relaxed);
    if (count >= limits_[size_class]) [[unlikely]]
      return false;
    blocks_[size_class][count] = block;
    counts_[size_class].store(count + 1, std::memory_order_relaxed);
    return true;
  }
  /// Sets the limits, which are zero before.
  void open() noexcept {
    for (std::size_t i = 0; i < slab_class_count; ++i) {
      limits_[i] = std::clamp<std::uint32_t>(bytes_per_class / slab_class_bytes[i], 4, most);
    }
  }
  /// The number of blocks, and their bytes. Any thread.
  std::uint64_t size() const noexcept {
    std::uint64_t sum = 0;
    for (const auto& each : counts_) sum += each.load(std::memory_order_relaxed);
    return sum;
  }
  std::size_t bytes() const noexcept {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < slab_class_count; ++i) {
      sum += counts_[i].load(std::memory_order_relaxed) * slab_class_bytes[i];
    }
    return sum;
  }

 private:
  static constexpr std::uint32_t most = 64;
  static constexpr std::uint32_t bytes_per_class = 32 * 1024;

  // Written by the owner. relaxed: statistics.
  std::array<std::atomic<std::uint32_t>, slab_class_count> counts_{};
  std::array<std::uint32_t, slab_class_count> limits_{};
  std::array<std::array<free_block*, most>, slab_class_count> blocks_{};
};

/// The slabs of one thread. Heaps are never destroyed: one whose thread has ended is adopted by a
/// later thread, or, for one operation, by a thread that frees one of its blocks.
///
/// Thread-safety: members marked "any thread" may be called from any thread, the rest by the owner.
class slab_heap {
 public:
  constexpr slab_heap() noexcept { current_.fill(&no_slab.object); }
  slab_heap& operator=(slab_heap&&) = delete;

  /// Makes the caller the owner of a heap without owner, or of a new one. Throws std::bad_alloc.
  /// Any thread. O(heaps).
  static slab_heap& claim_any();
  /// All heaps, linked by next(). Any thread.
  static slab_heap* first() noexcept;
  slab_heap* next() const noexcept { return next_; }
  /// A block of the current slab; null when it has none.
  free_block* try_allocate(std::size_t size_class) noexcept {
    free_block* block = current_[size_class]->pop();
    if (block != nullptr) [[likely]]
      in_use_.add(1);
    return block;
  }
  /// A block, if need be of a new slab. Throws std::bad_alloc.
  free_block* allocate(std::size_t size_class);
  /// Frees a block of a slab of this heap.
  void deallocate(slab& from, free_block* block) noexcept {
    in_use_.subtract(1);
    if (from.push(block)) [[unlikely]]
      rearrange(from);
  }
  /// Frees a block of a slab of this heap. Any thread that does not own the heap.
  void give_back(free_block* block) noexcept;
  /// Takes home the blocks that others gave back, and unmaps all unused slabs.
  void trim() noexcept;
  /// The thread's own stack of blocks, of this heap and others.
  block_cache& cache() noexcept { return cache_; }
  /// Trims and gives up ownership.
  void abandon() noexcept;
  /// Adds the counters of this heap. Any thread.
  void add_to(slab_stats& stats) const noexcept;

 private:
  void drain() noexcept;
  void empty_cache() noexcept;
  void rearrange(slab& changed) noexcept;
  void retire_current(std::size_t size_class) noexcept;
  slab& next_slab(std::size_t size_class);
  void shrink_cache(std::size_t limit) noexcept;
  void give_up_ownership() noexcept;

  std::array<slab*, slab_class_count> current_;                     // where blocks come from
  std::array<intrusive_list<slab>, slab_class_count> with_free_{};  // not current, some free
  intrusive_list<slab> empty_;                                      // of no class; newest first
  std::size_t empty_count_ = 0;

  relaxed_counter in_use_, remote_frees_, mapped_, unmapped_, cached_;

  block_cache cache_;

  slab_heap* next_ = nullptr;
  alignas(false_sharing_range) remote_free_list<free_block> given_back_;
};

}  // namespace gyre::detail

// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/slab_heap.hpp>

#include <sys/mman.h>

#include <functional>
#include <new>
#include <utility>

namespace gyre {
namespace {

// The most slabs that one call of the system maps or unmaps: each alone would take several times as
// long, and would be a mapping of its own for the kernel, which limits their number.
constexpr std::size_t max_slabs_together = 16;
// The part of a full cache that is unmapped at once, as a divisor.
constexpr std::size_t unmapped_share = 16;

constinit std::atomic<std::size_t> max_cached_bytes{default_slab_cache_limit};
constinit std::atomic<detail::slab_heap*> heaps{nullptr};

// Maps memory for `count` slabs; returns null without memory. The kernel puts a new mapping below
// the earlier ones, so this function keeps the upper end of what it maps: the memory of the next
// call then lies beside it, and slabs of both can be unmapped together.
std::byte* map_slabs(std::size_t count) noexcept {
  constexpr std::size_t alignment = detail::slab::bytes;
  const std::size_t bytes = count * alignment;
  void* const memory = ::mmap(nullptr, bytes + alignment, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  const std::size_t misaligned_bytes = reinterpret_cast<std::uintptr_t>(memory) % alignment;
  const std::size_t unused_bytes = alignment - misaligned_bytes;
  std::byte* const start = static_cast<std::byte*>(memory) + unused_bytes;
  ::munmap(memory, unused_bytes);
  if (misaligned_bytes != 0) ::munmap(start + bytes, misaligned_bytes);
  return start;
}

}  // namespace

void set_slab_cache_limit(std::size_t bytes) noexcept {
  max_cached_bytes.store(bytes,
                         std::memory_order_relaxed);  // relaxed: the setting orders nothing
}

std::size_t slab_cache_limit() noexcept { return max_cached_bytes.load(std::memory_order_relaxed); }

namespace detail {

slab& slab::make(std::byte* start, slab_heap& owner) noexcept {
  add_leak_root(start, bytes);
  return *::new (at(reinterpret_cast<std::uintptr_t>(start))) slab{owner};
}

void slab::unmap(std::span<slab*> unused_slabs) noexcept {
  std::sort(unused_slabs.begin(), unused_slabs.end(), std::less<>());
  std::byte* run_start = nullptr;
  std::byte* run_end = nullptr;
  for (slab* const unused_slab : unused_slabs) {
    std::byte* const memory = unused_slab->start();
    unused_slab->~slab();
    unpoison(memory, bytes);
    remove_leak_root(memory, bytes);
    if (memory != run_end) {
      if (run_start != nullptr) ::munmap(run_start, static_cast<std::size_t>(run_end - run_start));
      run_start = memory;
    }
    run_end = memory + bytes;
  }
  if (run_start != nullptr) ::munmap(run_start, static_cast<std::size_t>(run_end - run_start));
}

void slab::assign(std::size_t size_class) noexcept {
  size_class_ = static_cast<std::uint32_t>(size_class);
  block_bytes_ = slab_class_bytes[size_class];
  free_blocks_ = nullptr;
  uncut_ = first_block();
  const auto available_bytes = static_cast<std::size_t>(start() + bytes - uncut_);
  end_ = uncut_ + available_bytes / block_bytes_ * block_bytes_;
  poison(uncut_, available_bytes);
}

bool slab::cut() noexcept {
  constexpr std::size_t page = 4096;  // the limit of memory that is touched before it is needed
  if (uncut_ == end_) return false;
  const std::size_t run_bytes = std::max<std::size_t>(page / block_bytes_, 1) * block_bytes_;
  std::byte* run_end = uncut_ + std::min(run_bytes, static_cast<std::size_t>(end_ - uncut_));
  // The links lead from the last block to the first, so that blocks are allocated in the order of
  // their addresses.
  for (std::byte* block = run_end; block != uncut_;) {
    block -= block_bytes_;
    link(reinterpret_cast<free_block*>(block));
  }
  uncut_ = run_end;
  return true;
}

slab_heap* slab_heap::first() noexcept {
  return heaps.load(std::memory_order_acquire);  // acquire: pairs with the release in claim_any()
}

slab_heap& slab_heap::claim_any() {
  for (slab_heap* heap = first(); heap != nullptr; heap = heap->next_) {
    if (heap->given_back_.is_orphaned() && heap->given_back_.try_claim()) return *heap;
  }
  auto* heap = new slab_heap;
  heap->open_cache();
  static_cast<void>(heap->given_back_.try_claim());  // cannot fail: no other thread sees the heap
  heap->next_ = heaps.load(std::memory_order_relaxed);  // relaxed: the exchange verifies it
  // release: pairs with the acquire in first(), whose caller sees the constructed heap.
  while (!heaps.compare_exchange_weak(heap->next_, heap, std::memory_order_release,
                                      std::memory_order_relaxed)) {
  }
  return *heap;
}

free_block* slab_heap::allocate(std::size_t size_class) {
  slab* source = current_slabs_[size_class];
  if (!source->has_free() && !source->cut()) {
    if (with_free_[size_class].empty()) take_remote_frees();  // may free blocks of the current slab
    if (!source->has_free()) source = &next_slab(size_class);
  }
  in_use_.add(1);
  return source->pop();
}

// Replaces the exhausted current slab of the class, and returns the new one.
slab& slab_heap::next_slab(std::size_t size_class) {
  slab* next = with_free_[size_class].pop_front();
  if (next == nullptr) {
    next = empty_slabs_.pop_front();
    if (next != nullptr) {
      --empty_count_;
      cached_.subtract(slab::bytes);
    } else {
      next = &new_slab();
    }
    next->assign(size_class);
  }
  retire_current(size_class);
  next->pin();
  current_slabs_[size_class] = next;
  if (!next->has_free()) next->cut();
  return *next;
}

// Maps as many slabs as the heap holds, up to a limit: a thread that uses few maps few.
slab& slab_heap::new_slab() {
  if (reserved_count_ == 0) {
    const auto slab_count = static_cast<std::size_t>(mapped_.get() - unmapped_.get());
    reserved_count_ = std::clamp<std::size_t>(slab_count, 1, max_slabs_together);
    reserved_memory_ = map_slabs(reserved_count_);
    if (reserved_memory_ == nullptr) reserved_memory_ = map_slabs(reserved_count_ = 1);
    if (reserved_memory_ == nullptr) {
      reserved_count_ = 0;
      throw std::bad_alloc{};
    }
  }
  slab& result = slab::make(std::exchange(reserved_memory_, reserved_memory_ + slab::bytes), *this);
  --reserved_count_;
  mapped_.add(1);
  return result;
}

void slab_heap::retire_current(std::size_t size_class) noexcept {
  slab& retired_slab = *current_slabs_[size_class];
  if (&retired_slab == &no_slab.object) return;
  current_slabs_[size_class] = &no_slab.object;
  retired_slab.unpin();
  if (retired_slab.is_exhausted()) {
    retired_slab.mark_full();
  } else if (retired_slab.is_unused()) {
    move_to_matching_list(retired_slab);
  } else {
    with_free_[size_class].push_back(retired_slab);
  }
}

// Moves `target` to the list for its present state: a slab that was full has a free block again, or
// a slab is unused because its last block was freed.
void slab_heap::move_to_matching_list(slab& target) noexcept {
  if (target.clear_full() && !target.is_unused()) {
    // A slab at the end of the list gets time to become emptier before it is current.
    with_free_[target.size_class()].push_back(target);
    return;
  }
  target.unlink();
  empty_slabs_.push_front(target);
  ++empty_count_;
  cached_.add(slab::bytes);
  const std::size_t limit = slab_cache_limit() / slab::bytes;
  if (empty_count_ > limit) unmap_oldest(empty_count_ - limit + limit / unmapped_share);
}

// Unmaps `slabs` of the empty slabs, beginning with the oldest.
void slab_heap::unmap_oldest(std::size_t slabs) noexcept {
  while (slabs > 0) {
    std::array<slab*, max_slabs_together> group;
    const std::size_t count = std::min(slabs, group.size());
    for (slab*& oldest_slab : std::span(group).first(count)) oldest_slab = empty_slabs_.pop_back();
    slab::unmap(std::span(group).first(count));
    slabs -= count;
    empty_count_ -= count;
    cached_.subtract(count * slab::bytes);
    unmapped_.add(count);
  }
}

void slab_heap::take_remote_frees() noexcept {
  std::uint64_t count = 0;
  for (free_block* block = given_back_.take_all(); block != nullptr; ++count) {
    free_block* next = block->next;
    deallocate(slab::of(block), block);
    block = next;
  }
  remote_frees_.add(count);
}

void slab_heap::give_back(free_block* block) noexcept {
  // Poisons all of the block but the link, which the stack needs. Once pushed, the block belongs to
  // the heap's owner.
  slab& source = slab::of(block);
  poison(block + 1, slab_class_bytes[source.size_class()] - sizeof(free_block));
  if (!given_back_.push_or_claim(block)) return;
  deallocate(source, block);
  remote_frees_.add(1);
  give_up_ownership();
}

void slab_heap::open_cache() noexcept {
  constexpr std::uint32_t bytes_per_class = 32 * 1024;
  for (std::size_t i = 0; i < slab_class_count; ++i) {
    limits_[i] = std::clamp<std::uint32_t>(bytes_per_class / slab_class_bytes[i], 4, max_blocks);
  }
}

void slab_heap::fill_cache(std::size_t size_class) noexcept {
  for (std::uint32_t missing_blocks = limits_[size_class] / 2; missing_blocks > 0;
       --missing_blocks) {
    free_block* const block = try_allocate(size_class);
    if (block == nullptr) return;
    poison(block, sizeof(free_block));
    push(block, size_class);
  }
}

void slab_heap::halve_cache(std::size_t size_class) noexcept {
  const std::uint32_t count = counts_[size_class].load(std::memory_order_relaxed);
  const std::uint32_t older_count = count / 2;
  free_block** const blocks = blocks_[size_class].data();
  for (std::uint32_t i = 0; i < older_count; ++i) return_cached(blocks[i], size_class);
  std::copy(blocks + older_count, blocks + count, blocks);
  counts_[size_class].store(count - older_count, std::memory_order_relaxed);
}

void slab_heap::empty_cache() noexcept {
  for (std::size_t size_class = 0; size_class < slab_class_count; ++size_class) {
    while (free_block* block = pop(size_class)) return_cached(block, size_class);
  }
}

void slab_heap::return_cached(free_block* block, std::size_t size_class) noexcept {
  unpoison(block, slab_class_bytes[size_class]);
  return_block(block);
}

void slab_heap::trim() noexcept {
  empty_cache();
  for (std::size_t size_class = 0; size_class < slab_class_count; ++size_class) {
    retire_current(size_class);
  }
  take_remote_frees();
  unmap_oldest(empty_count_);
}

void slab_heap::abandon() noexcept {
  trim();
  give_up_ownership();
}

// Gives up ownership, after unmapping the empty slabs, which a heap without owner does not keep.
void slab_heap::give_up_ownership() noexcept {
  unmap_oldest(empty_count_);
  while (!given_back_.try_abandon()) {
    take_remote_frees();
    unmap_oldest(empty_count_);
  }
}

void slab_heap::add_to(slab_stats& stats) const noexcept {
  const std::uint64_t mapped_slabs = mapped_.get();
  const std::uint64_t unmapped_slabs = unmapped_.get();
  stats.bytes_held += static_cast<std::size_t>(mapped_slabs - unmapped_slabs) * slab::bytes;
  stats.bytes_cached += static_cast<std::size_t>(cached_.get());
  std::uint64_t cached_frames = 0;
  for (std::size_t i = 0; i < slab_class_count; ++i) {
    const std::uint32_t count = counts_[i].load(std::memory_order_relaxed);
    cached_frames += count;
    stats.bytes_parked += count * std::size_t{slab_class_bytes[i]};
  }
  stats.blocks_in_use += static_cast<std::size_t>(in_use_.get() - cached_frames);
  stats.heaps += 1;
  stats.remote_frees += remote_frees_.get();
  stats.slabs_mapped += mapped_slabs;
  stats.slabs_unmapped += unmapped_slabs;
}

}  // namespace detail
}  // namespace gyre

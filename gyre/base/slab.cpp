// SPDX-License-Identifier: Apache-2.0
// Binds a heap to each thread that uses slabs, until the thread ends.
#include <gyre/base/slab.hpp>

#include <gyre/base/detail/slab_class.hpp>
#include <gyre/base/detail/slab_heap.hpp>

#include <cassert>
#include <new>
#include <utility>

namespace gyre {
namespace {

using detail::free_block;
using detail::slab_class_of;
using detail::slab_heap;

// The heap of a thread that owns no heap. It has no block and owns no slab, so that the fast paths
// need no null check.
constinit detail::never_destroyed<slab_heap> no_heap;

}  // namespace

// gnu::used is needed because an optimiser of the whole program does not see that assembly code
// uses the variable.
[[gnu::used]] constinit thread_local detail::block_cache* detail::blocks_here = &no_heap.object;

namespace {

slab_heap& this_heap() noexcept { return static_cast<slab_heap&>(*detail::blocks_here); }
bool has_heap() noexcept { return detail::blocks_here != &no_heap.object; }

[[gnu::tls_model("initial-exec")]] constinit thread_local bool thread_has_ended = false;

// Abandons the heap when the thread's thread-locals are destroyed.
struct heap_lease {
  explicit heap_lease(slab_heap& heap) noexcept { detail::blocks_here = &heap; }
  ~heap_lease() {
    thread_has_ended = true;
    slab_heap& heap = this_heap();
    detail::blocks_here = &no_heap.object;
    heap.abandon();
  }
};

free_block* allocate_on_ended_thread(std::size_t size_class) {
  slab_heap& heap = slab_heap::claim_any();
  try {
    free_block* block = heap.allocate(size_class);
    heap.abandon();
    return block;
  } catch (...) {
    heap.abandon();
    throw;
  }
}

[[gnu::noinline, gnu::cold]] free_block* allocate_slowly(std::size_t size_class) {
  if (!has_heap()) {
    if (thread_has_ended) return allocate_on_ended_thread(size_class);
    static thread_local heap_lease lease{slab_heap::claim_any()};
  }
  return this_heap().allocate(size_class);
}

// Reports memory that is freed twice, in builds with AddressSanitizer, by reading it.
void check_in_use([[maybe_unused]] void* memory) noexcept {
  if constexpr (detail::asan_is_on) static_cast<void>(*static_cast<volatile char*>(memory));
}

free_block* take_block(std::size_t size_class) {
  free_block* block = this_heap().try_allocate(size_class);
  if (block == nullptr) [[unlikely]]
    block = allocate_slowly(size_class);
  return block;
}

void return_block(void* memory) noexcept {
  check_in_use(memory);
  this_heap().return_block(static_cast<free_block*>(memory));
}

}  // namespace

void* slab_allocate(std::size_t bytes) {
  if (bytes > slab_max_bytes) [[unlikely]]
    return ::operator new(bytes);
  void* memory = take_block(slab_class_of(bytes));
  detail::unpoison(memory, bytes);
  return memory;
}

void slab_deallocate(void* memory, std::size_t bytes) noexcept {
  if (memory == nullptr) return;
  if (bytes > slab_max_bytes) [[unlikely]] {
    ::operator delete(memory, bytes);
    return;
  }
  assert(detail::slab::of(memory).size_class() == slab_class_of(bytes) &&
         "freed with another size than allocated");
  return_block(memory);
}

namespace {

// Takes a block and fills the cache. The function is separate, so that the fast path of the
// allocation saves no registers.
[[gnu::noinline]] free_block* allocate_and_fill_cache(std::size_t size_class) {
  free_block* const block = take_block(size_class);
  this_heap().fill_cache(size_class);
  return block;
}

[[gnu::noinline]] void deallocate_to_full_cache(free_block* block,
                                                std::size_t size_class) noexcept {
  if (!has_heap()) return return_block(block);
  this_heap().halve_cache(size_class);
  detail::blocks_here->push(block, size_class);
  detail::poison(block, detail::slab_class_bytes[size_class]);
}

}  // namespace

void* detail::slab_allocate_class(std::size_t size_class) {
  free_block* block = blocks_here->pop(size_class);
  if (block == nullptr) [[unlikely]]
    block = allocate_and_fill_cache(size_class);
  unpoison(block, slab_class_bytes[size_class]);
  return block;
}

void detail::slab_deallocate_class(void* memory, std::size_t size_class) noexcept {
  check_in_use(memory);
  assert(slab::of(memory).size_class() == size_class && "freed with another size than allocated");
  auto* const block = static_cast<free_block*>(memory);
  if (!blocks_here->push(block, size_class)) [[unlikely]]
    return deallocate_to_full_cache(block, size_class);
  poison(memory, slab_class_bytes[size_class]);
}

void detail::slab_deallocate_frame(void* memory) noexcept {
  slab_deallocate_class(memory, slab::of(memory).size_class());
}

void slab_trim() noexcept {
  if (has_heap()) this_heap().trim();
}

slab_stats read_slab_stats() noexcept {
  slab_stats stats;
  for (slab_heap* heap = slab_heap::first(); heap != nullptr; heap = heap->next()) {
    heap->add_to(stats);
  }
  return stats;
}

}  // namespace gyre

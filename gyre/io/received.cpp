// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/received.hpp>

#include <algorithm>
#include <cassert>
#include <new>

namespace gyre::io {

receive_memory::receive_memory(std::size_t block_bytes, std::size_t limit) noexcept
    : block_size_(
          std::clamp((block_bytes + alignment - 1) & ~(alignment - 1), min_room, max_block)),
      limit_(limit) {}

receive_memory::~receive_memory() {
  arrival_.reset();
  assert(!lent() && "received bytes outlived their loop");
  if (current_block_ != nullptr) deallocate(*current_block_);
  while (block* old_block = free_blocks_.pop_front()) deallocate(*old_block);
}

// Releases the current block, if there is one: it can be reused when its last lease has ended.
// Returns the memory of another block.
std::span<std::byte> receive_memory::next_block() noexcept {
  current_block_ = free_blocks_.pop_front();
  if (current_block_ != nullptr) {
    --free_count_;
  } else {
    current_block_ = allocate();
  }
  if (current_block_ == nullptr) {
    is_exhausted_ = true;
    return {};
  }
  return {current_block_->memory(), block_size_};
}

receive_memory::block* receive_memory::allocate() noexcept {
  if (blocks_ > 0 && (blocks_ + 1) * block_size_ > limit_) return nullptr;
  void* const memory =
      ::operator new(sizeof(block) + block_size_, std::align_val_t{alignof(block)}, std::nothrow);
  if (memory == nullptr) return nullptr;
  ++blocks_;
  return new (memory) block(*this);
}

void receive_memory::deallocate(block& memory) noexcept {
  --blocks_;
  memory.~block();
  ::operator delete(&memory, std::align_val_t{alignof(block)});
}

void receive_memory::give_back(detail::receive_block& memory) noexcept {
  auto& own_block = static_cast<block&>(memory);
  receive_memory& self = *own_block.owner;
  own_block.used_bytes = 0;
  if (&own_block != self.current_block_) {
    // The block that was returned last is used first, because it is the most likely to be in the
    // cache.
    if (self.free_count_ < max_free) {
      self.free_blocks_.push_front(own_block);
      ++self.free_count_;
    } else {
      self.deallocate(own_block);
    }
  }
  if (!std::exchange(self.is_exhausted_, false)) return;
  if (self.on_return_ != nullptr) self.on_return_(self.context_);
}

}  // namespace gyre::io

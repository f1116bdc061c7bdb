// SPDX-License-Identifier: Apache-2.0
// received: bytes on loan from the memory that a loop receives into: a few large blocks for all its
// connections, so that an idle connection holds no memory, and new bytes lie in cached memory.
#pragma once

#include <gyre/base/intrusive_list.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace gyre::io {

class receive_memory;

namespace detail {

class buffer_ring;

/// Memory that is lent in pieces.
struct receive_block {
  using function = void (*)(receive_block&) noexcept;

  receive_block(function callback, const std::byte* data) noexcept
      : on_return(callback), bytes(data) {}

  function on_return;      ///< is called when the last lease of a piece ends
  std::size_t leases = 0;  ///< pieces on loan
  const std::byte* bytes;  ///< the memory that is lent, up to 4 GiB
};

}  // namespace detail

/// A lease of received bytes in the loop's memory; the destructor ends the lease. Destroy it soon,
/// because it prevents the reuse of a block (1 MiB). With all blocks on loan (256 MiB), receives
/// wait (back-pressure).
///
/// Thread-safety: the loop's thread only.
/// Lifetime: must not outlive the loop.
class received {
 public:
  received() noexcept = default;
  received(received&& other) noexcept
      : block_(std::exchange(other.block_, nullptr)), part_(std::exchange(other.part_, {})) {}
  received& operator=(received&& other) noexcept {
    if (this == &other) return *this;
    reset();
    block_ = std::exchange(other.block_, nullptr);
    part_ = std::exchange(other.part_, {});
    return *this;
  }
  ~received() { reset(); }

  std::span<const std::byte> bytes() const noexcept { return {data(), size()}; }
  std::string_view text() const noexcept { return {reinterpret_cast<const char*>(data()), size()}; }
  const std::byte* data() const noexcept {
    return block_ != nullptr ? block_->bytes + part_.offset : nullptr;
  }
  std::size_t size() const noexcept { return part_.size; }
  bool empty() const noexcept { return part_.size == 0; }
  // NOLINTNEXTLINE(google-explicit-constructor): a view of its bytes
  operator std::span<const std::byte>() const noexcept { return bytes(); }
  /// Ends the lease early.
  void reset() noexcept;

 private:
  friend class receive_memory;
  friend class detail::buffer_ring;
  received(detail::receive_block& block, std::size_t offset, std::size_t size) noexcept
      : block_(&block),
        part_{.offset = static_cast<std::uint32_t>(offset),
              .size = static_cast<std::uint32_t>(size)} {}

  // A part of the block, in one word: an address and a size would add a word to the frames of
  // coroutines.
  struct part {
    std::uint32_t offset = 0;
    std::uint32_t size = 0;
  };

  detail::receive_block* block_ = nullptr;
  part part_;
};

/// The memory into which the backend of one loop receives: large blocks, whose pieces it lends as
/// `received`. For backends.
///
/// Thread-safety: the loop's thread only.
class receive_memory {
 public:
  /// Called on the loop's thread when a block is free again after room() returned nothing.
  using function = void (*)(void* context) noexcept;

  static constexpr std::size_t default_block = 1024 * 1024;
  static constexpr std::size_t default_limit = 256 * 1024 * 1024;
  /// `block_bytes`: the bytes of a block, at most 2 GiB. `limit`: the bytes of all blocks; one
  /// block is always allowed.
  explicit receive_memory(std::size_t block_bytes = default_block,
                          std::size_t limit = default_limit) noexcept;
  receive_memory(const receive_memory&) = delete;
  receive_memory& operator=(const receive_memory&) = delete;
  ~receive_memory();
  /// Returns the memory to receive into next; empty if all memory is on loan, or none can be
  /// allocated.
  std::span<std::byte> room() noexcept {
    if (current_block_ != nullptr && block_size_ - current_block_->used_bytes >= min_room)
        [[likely]] {
      return {current_block_->memory() + current_block_->used_bytes,
              block_size_ - current_block_->used_bytes};
    }
    return next_block();
  }
  /// Lends the first `count` bytes of what room() has just returned.
  received lend(std::size_t count) noexcept {
    const std::size_t offset = current_block_->used_bytes;
    current_block_->used_bytes += (count + (alignment - 1)) & ~(alignment - 1);
    ++current_block_->leases;
    return received(*current_block_, offset, count);
  }
  /// Returns the bytes that a transient or shared receive request has received; empty after its
  /// callback.
  received& arrived() noexcept { return arrival_; }
  /// Sets the function that is called when receiving can continue: see `function`.
  void on_return(function callback, void* context) noexcept {
    on_return_ = callback;
    context_ = context;
  }
  /// Returns whether any bytes are on loan.
  bool lent() const noexcept {
    return blocks_ >
           free_count_ + (current_block_ != nullptr && current_block_->leases == 0 ? 1 : 0);
  }
  /// Returns the total bytes of all blocks.
  std::size_t allocated() const noexcept { return blocks_ * block_size_; }
  std::size_t limit() const noexcept { return limit_; }

 private:
  // A block, from whose front pieces are lent. When no piece is on loan, the block is lent from its
  // front again.
  struct alignas(64) block : detail::receive_block, intrusive_list_node {
    explicit block(receive_memory& memory_owner) noexcept
        : receive_block(&give_back, memory()), owner(&memory_owner) {}
    receive_memory* owner;
    std::size_t used_bytes = 0;
    std::byte* memory() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
  };

  static constexpr std::size_t alignment = 64;
  static constexpr std::size_t min_room = 16 * 1024;
  static constexpr std::size_t max_block = std::size_t{1} << 31;
  static constexpr std::size_t max_free = 2;  // the maximum number of free blocks that are kept

  std::span<std::byte> next_block() noexcept;
  block* allocate() noexcept;
  void deallocate(block& memory) noexcept;
  static void give_back(detail::receive_block& memory) noexcept;

  block* current_block_ = nullptr;
  std::size_t block_size_;
  std::size_t limit_;
  std::size_t blocks_ = 0;
  intrusive_list<block> free_blocks_;
  std::size_t free_count_ = 0;
  bool is_exhausted_ = false;
  received arrival_;
  function on_return_ = nullptr;
  void* context_ = nullptr;
};

inline void received::reset() noexcept {
  if (block_ == nullptr) return;
  detail::receive_block& block = *std::exchange(block_, nullptr);
  part_ = {};
  if (--block.leases == 0) block.on_return(block);
}

}  // namespace gyre::io

// SPDX-License-Identifier: Apache-2.0
// The memory that a loop receives into: large blocks that belong to the loop, so that a connection
// for which nothing comes holds nothing, and what comes lies in memory that is warm in the cache.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

#include <gyre/base/intrusive_list.hpp>

namespace gyre::io {

class receive_memory;

namespace detail {

class buffer_ring;

/// Memory of which pieces are on loan.
struct receive_block {
  using function = void (*)(receive_block&) noexcept;

  explicit receive_block(function on_return) noexcept : returned(on_return) {}

  function returned;  ///< called when all that was on loan has come back
  std::size_t leases = 0;
};

}  // namespace detail

/// Bytes that came, on loan from the loop that received them. Give them back soon (by its
/// destructor): they keep a whole block of the loop from being used again. Loop's thread only; it
/// must not outlive the loop.
class received {
 public:
  received() noexcept = default;
  received(received&& other) noexcept
      : block_(std::exchange(other.block_, nullptr)), bytes_(std::exchange(other.bytes_, {})) {}
  received& operator=(received&& other) noexcept {
    if (this == &other) return *this;
    reset();
    block_ = std::exchange(other.block_, nullptr);
    bytes_ = std::exchange(other.bytes_, {});
    return *this;
  }
  ~received() { reset(); }

  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }
  const std::byte* data() const noexcept { return bytes_.data(); }
  std::size_t size() const noexcept { return bytes_.size(); }
  bool empty() const noexcept { return bytes_.empty(); }
  // NOLINTNEXTLINE(google-explicit-constructor): that is what it is
  operator std::span<const std::byte>() const noexcept { return bytes_; }

  /// Gives them back.
  void reset() noexcept;

 private:
  friend class receive_memory;
  friend class detail::buffer_ring;
  received(detail::receive_block& block, std::span<const std::byte> bytes) noexcept
      : block_(&block), bytes_(bytes) {}

  detail::receive_block* block_ = nullptr;
  std::span<const std::byte> bytes_;
};

/// The large blocks of one loop. Loop's thread only.
class receive_memory {
 public:
  /// Told when a block has come back after room() had to say that there is none.
  using function = void (*)(void* context) noexcept;

  static constexpr std::size_t default_block = 1024 * 1024;
  static constexpr std::size_t default_limit = 256 * 1024 * 1024;

  /// Blocks of `block` bytes, `limit` bytes in all, but at least one block.
  explicit receive_memory(std::size_t block = default_block,
                          std::size_t limit = default_limit) noexcept;
  receive_memory(const receive_memory&) = delete;
  receive_memory& operator=(const receive_memory&) = delete;
  ~receive_memory();

  /// Where to receive next; empty if all memory is on loan, or there is none left.
  std::span<std::byte> room() noexcept {
    if (current_ != nullptr && block_size_ - current_->used >= least_room) [[likely]] {
      return {current_->bytes() + current_->used, block_size_ - current_->used};
    }
    return next_block();
  }
  /// Lends the first `count` bytes of room().
  received lend(std::size_t count) noexcept {
    const std::span<const std::byte> bytes{current_->bytes() + current_->used, count};
    current_->used += (count + (alignment - 1)) & ~(alignment - 1);
    ++current_->leases;
    return received(*current_, bytes);
  }
  void on_return(function returned, void* context) noexcept {
    returned_ = returned;
    context_ = context;
  }

  /// Whether any bytes are on loan.
  bool lent() const noexcept {
    return blocks_ > free_count_ + (current_ != nullptr && current_->leases == 0 ? 1 : 0);
  }
  /// Bytes in all blocks, and the most that they may be.
  std::size_t allocated() const noexcept { return blocks_ * block_size_; }
  std::size_t limit() const noexcept { return limit_; }

 private:
  // One block, cut from the front. It begins anew when nothing of it is in use.
  struct alignas(64) block : detail::receive_block, intrusive_list_node {
    explicit block(receive_memory& of) noexcept : receive_block(&give_back), home(&of) {}
    receive_memory* home;
    std::size_t used = 0;
    std::byte* bytes() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
  };

  static constexpr std::size_t alignment = 64;
  static constexpr std::size_t least_room = 16 * 1024;

  // Kept for the next time when they have come back.
  static constexpr std::size_t most_free = 2;

  std::span<std::byte> next_block() noexcept;
  block* allocate() noexcept;
  void deallocate(block& unused) noexcept;
  static void give_back(detail::receive_block& returned) noexcept;
  void take_back(block& returned) noexcept;

  block* current_ = nullptr;
  std::size_t block_size_;
  std::size_t limit_;
  std::size_t blocks_ = 0;
  intrusive_list<block> free_;
  std::size_t free_count_ = 0;
  bool exhausted_ = false;
  function returned_ = nullptr;
  void* context_ = nullptr;
};

inline void received::reset() noexcept {
  if (block_ == nullptr) return;
  detail::receive_block& block = *std::exchange(block_, nullptr);
  bytes_ = {};
  if (--block.leases == 0) block.returned(block);
}

}  // namespace gyre::io

// SPDX-License-Identifier: Apache-2.0
// buffer: contiguous bytes that grow at the end, are consumed from the front, and have room in
// front for a header.
//
//     gyre::io::buffer message;
//     message.append("hello");
//     message.prepend(static_cast<std::uint32_t>(message.size()));  // moves nothing
//
//     const std::span<std::byte> room = message.prepare(4096);
//     message.commit(read_into(room));
#pragma once

#include <gyre/base/endian.hpp>
#include <gyre/io/input.hpp>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

namespace gyre::io {

/// Options of a buffer, fixed when it is constructed.
struct buffer_options {
  /// The headroom: bytes that stay free in front of the first one, so that prepend() moves nothing.
  std::uint32_t prepend = 8;
  /// The largest size(). To add more bytes throws std::length_error.
  std::size_t max_size = std::numeric_limits<std::ptrdiff_t>::max() / 2;
};

/// A growable byte buffer, read and consumed as an `input`. Move-only: a buffer that was moved from
/// is empty, owns no memory, and can be used again. Bytes that are appended or prepended may be the
/// buffer's own, even consumed ones.
///
/// Thread-safety: none; may be handed from thread to thread.
/// Lifetime: spans and views of the bytes are valid until a call that must make room (see
/// tail_room() and front_room()), shrink_to_fit(), clear() or a move; those of consumed bytes, such
/// as take() returns, only until prepend(), which overwrites the bytes.
/// Errors: members that make room throw std::length_error beyond max_size(), and std::bad_alloc;
/// the buffer is then unchanged.
/// Complexity: an empty buffer allocates nothing until it is used; memory up to 4 KiB comes from
/// the slab allocator (base/slab.hpp). When there is no room at the end, the bytes move to the
/// front if they fill at most half of the memory, else into memory of twice their size; so each
/// byte costs amortised O(1) for every pattern of use.
class buffer : public input {
 public:
  buffer() noexcept = default;
  explicit buffer(buffer_options options) noexcept
      : options_{options.prepend, std::min(options.max_size, buffer_options().max_size)} {}
  buffer(buffer&& other) noexcept
      : input(other),
        storage_(other.storage_),
        allocated_size_(other.allocated_size_),
        options_(other.options_) {
    other.forget_storage();
  }
  buffer& operator=(buffer&& other) noexcept {
    buffer(std::move(other)).swap(*this);
    return *this;
  }
  ~buffer() {
    if (storage_ != nullptr) free_storage();
  }

  void swap(buffer& other) noexcept {
    std::swap(static_cast<input&>(*this), static_cast<input&>(other));
    std::swap(storage_, other.storage_);
    std::swap(allocated_size_, other.allocated_size_);
    std::swap(options_, other.options_);
  }
  friend void swap(buffer& left, buffer& right) noexcept { left.swap(right); }

  /// Returns the bytes, for changes in place.
  [[nodiscard]] std::span<std::byte> mutable_bytes() noexcept {
    return {storage_ + front(), size()};
  }

  /// Adds bytes at the end.
  void append(std::span<const std::byte> bytes) {
    if (bytes.size() > tail_room()) [[unlikely]] {
      append_and_grow(bytes);
    } else if (!bytes.empty()) {
      std::memcpy(tail(), bytes.data(), bytes.size());
      end_ += bytes.size();
    }
  }
  void append(std::string_view text) { append(std::as_bytes(std::span(text))); }
  /// Adds an integer in network order, as wide as its type.
  template <network_integer T>
  void append(T value) {
    if (sizeof(T) > tail_room()) [[unlikely]]
      make_tail_room(sizeof(T));
    store_be(tail(), static_cast<std::make_unsigned_t<T>>(value));
    end_ += sizeof(T);
  }

  /// Adds bytes in front; moves no bytes while the new ones fit into the headroom and the consumed
  /// space.
  void prepend(std::span<const std::byte> bytes) {
    if (bytes.size() > front_room()) [[unlikely]] {
      prepend_and_grow(bytes);
    } else if (!bytes.empty()) {
      begin_ -= bytes.size();
      // The source may be consumed bytes of this buffer.
      std::memmove(storage_ + front(), bytes.data(), bytes.size());
    }
  }
  void prepend(std::string_view text) { prepend(std::as_bytes(std::span(text))); }
  template <network_integer T>
  void prepend(T value) {
    if (sizeof(T) > front_room()) [[unlikely]]
      make_front_room(sizeof(T));
    begin_ -= sizeof(T);
    store_be(storage_ + front(), static_cast<std::make_unsigned_t<T>>(value));
  }

  /// Returns memory for `count` bytes after the last one. To add bytes, write them there, and call
  /// commit().
  [[nodiscard]] std::span<std::byte> prepare(std::size_t count) {
    if (count > tail_room()) [[unlikely]]
      make_tail_room(count);
    return {tail(), count};
  }
  /// Adds the first `count` bytes of the prepared memory; `count` <= tail_room() is asserted.
  void commit(std::size_t count) noexcept {
    assert(count <= tail_room() && "commits more than was prepared");
    end_ += count;
  }

  /// Allocates memory for `count` bytes in total.
  void reserve(std::size_t count) {
    if (count > size() && count - size() > tail_room()) make_tail_room(count - size());
  }
  /// Frees memory that neither the bytes nor the headroom need.
  void shrink_to_fit();
  /// Drops the last `count` bytes; `count` <= size() is asserted.
  void drop_last(std::size_t count) noexcept {
    assert(count <= size() && "drops more bytes than there are");
    end_ -= count;
  }
  /// Drops all bytes, and keeps the memory.
  void clear() noexcept {
    if (storage_ != nullptr) begin_ = end_ = storage_ + headroom();
  }

  /// Returns the number of bytes that the memory holds after the headroom.
  [[nodiscard]] std::size_t capacity() const noexcept {
    return storage_ == nullptr ? 0 : allocated_size_ - headroom();
  }
  /// Returns the number of bytes that can be appended without moving or allocating.
  [[nodiscard]] std::size_t tail_room() const noexcept {
    return std::min(allocated_size_ - front() - size(), options_.max_size - size());
  }
  /// Returns the number of bytes that can be prepended without moving or allocating.
  [[nodiscard]] std::size_t front_room() const noexcept {
    return std::min(front(), options_.max_size - size());
  }
  [[nodiscard]] std::size_t max_size() const noexcept { return options_.max_size; }

 private:
  std::size_t front() const noexcept { return static_cast<std::size_t>(begin_ - storage_); }
  std::size_t headroom() const noexcept { return options_.prepend; }
  std::byte* tail() const noexcept { return storage_ + front() + size(); }
  void forget_storage() noexcept {
    begin_ = end_ = storage_ = nullptr;
    allocated_size_ = 0;
  }

  void move_to(std::size_t offset) noexcept;
  void reallocate(std::size_t bytes, std::size_t offset);
  std::size_t capacity_for(std::size_t count) const;
  void make_tail_room(std::size_t count);
  void make_front_room(std::size_t count);
  void append_and_grow(std::span<const std::byte> bytes);
  void prepend_and_grow(std::span<const std::byte> bytes);
  void free_storage() noexcept;

  std::byte* storage_ = nullptr;
  std::size_t allocated_size_ = 0;
  buffer_options options_;
};

static_assert(!std::is_copy_constructible_v<buffer> && !std::is_copy_assignable_v<buffer>);

}  // namespace gyre::io

// SPDX-License-Identifier: Apache-2.0
// Bytes in one piece that grow at the end, shrink at the front, and have room in front for a header.
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

/// How a buffer behaves; fixed when it is made.
struct buffer_options {
  /// Bytes kept free in front of the first one appended, for prepend().
  std::uint32_t prepend = 8;
  /// What would make a buffer hold more bytes throws std::length_error.
  std::size_t max_size = std::numeric_limits<std::ptrdiff_t>::max() / 2;
};

/// Owns its bytes, which are read and consumed as those of any `input`. Move-only: what was moved
/// from is empty, has given its memory away, and can be used on.
///
/// An empty one allocates nothing until it is used; memory comes from the slab up to 4 KiB. When the
/// end of the memory is reached and it is at most half full, the bytes are moved to its front, else
/// into memory of twice their size; so each byte costs O(1) over time, whatever the pattern of
/// appending and consuming. What is appended or prepended may be bytes of the buffer itself.
///
/// Members that make room throw std::length_error beyond the largest size, and std::bad_alloc; the
/// buffer is then as it was. They, shrink_to_fit(), clear() and moves end the validity of spans and
/// views of the bytes. Not thread-safe; may be handed from thread to thread.
class buffer : public input {
 public:
  buffer() noexcept = default;
  explicit buffer(buffer_options how) noexcept
      : how_{how.prepend, std::min(how.max_size, buffer_options().max_size)} {}
  buffer(buffer&& other) noexcept
      : input(other), storage_(other.storage_), allocated_(other.allocated_), how_(other.how_) {
    other.give_away();
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
    std::swap(allocated_, other.allocated_);
    std::swap(how_, other.how_);
  }
  friend void swap(buffer& left, buffer& right) noexcept { left.swap(right); }

  /// The bytes, to be changed in place.
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
  /// Adds an integer in network order; its type is its width.
  template <network_integer T>
  void append(T value) {
    if (sizeof(T) > tail_room()) [[unlikely]]
      make_tail_room(sizeof(T));
    store_be(tail(), static_cast<std::make_unsigned_t<T>>(value));
    end_ += sizeof(T);
  }

  /// Adds bytes in front of the first one: without moving any while the prepend space, or what was
  /// consumed, has room for them.
  void prepend(std::span<const std::byte> bytes) {
    if (bytes.size() > front_room()) [[unlikely]] {
      prepend_and_grow(bytes);
    } else if (!bytes.empty()) {
      begin_ -= bytes.size();
      std::memcpy(storage_ + front(), bytes.data(), bytes.size());
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

  /// Room for `count` bytes behind the last one, to be written to and then made part of the buffer
  /// by commit(); without that nothing has been added.
  [[nodiscard]] std::span<std::byte> prepare(std::size_t count) {
    if (count > tail_room()) [[unlikely]]
      make_tail_room(count);
    return {tail(), count};
  }
  /// Adds the first `count` bytes of what prepare() returned, or of tail_room(); asserted.
  void commit(std::size_t count) noexcept {
    assert(count <= tail_room() && "commits more than was prepared");
    end_ += count;
  }

  /// Allocates for `count` bytes in all: until something is consumed, none are allocated for less.
  void reserve(std::size_t count) {
    if (count > size() && count - size() > tail_room()) make_tail_room(count - size());
  }
  /// Gives back the memory that is not needed for the bytes there are and the prepend space.
  void shrink_to_fit();
  /// Drops all bytes and keeps the memory.
  void clear() noexcept {
    if (storage_ != nullptr) begin_ = end_ = storage_ + headroom();
  }

  /// How many bytes the memory can hold behind the prepend space.
  [[nodiscard]] std::size_t capacity() const noexcept {
    return storage_ == nullptr ? 0 : allocated_ - headroom();
  }
  /// How many bytes can be appended without moving or allocating.
  [[nodiscard]] std::size_t tail_room() const noexcept {
    return std::min(allocated_ - front() - size(), how_.max_size - size());
  }
  /// How many bytes can be prepended without moving or allocating.
  [[nodiscard]] std::size_t front_room() const noexcept {
    return std::min(front(), how_.max_size - size());
  }
  [[nodiscard]] std::size_t max_size() const noexcept { return how_.max_size; }

 private:
  std::size_t front() const noexcept { return static_cast<std::size_t>(begin_ - storage_); }
  std::size_t headroom() const noexcept { return how_.prepend; }
  std::byte* tail() const noexcept { return storage_ + front() + size(); }
  void give_away() noexcept {
    begin_ = end_ = storage_ = nullptr;
    allocated_ = 0;
  }

  void move_to(std::size_t offset) noexcept;
  void reallocate(std::size_t bytes, std::size_t offset);
  std::size_t bytes_for(std::size_t more) const;
  void make_tail_room(std::size_t count);
  void make_front_room(std::size_t count);
  void append_and_grow(std::span<const std::byte> bytes);
  void prepend_and_grow(std::span<const std::byte> bytes);
  void free_storage() noexcept;

  std::byte* storage_ = nullptr;
  std::size_t allocated_ = 0;
  buffer_options how_;
};

static_assert(!std::is_copy_constructible_v<buffer> && !std::is_copy_assignable_v<buffer>);

}  // namespace gyre::io

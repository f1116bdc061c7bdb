// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/buffer.hpp>

#include <gyre/base/detail/slab_class.hpp>
#include <gyre/base/slab.hpp>

#include <functional>
#include <stdexcept>

namespace gyre::io {
namespace {

constexpr std::size_t min_bytes = 512;

// Returns the size of the slab block that holds `bytes`.
std::size_t round_up(std::size_t bytes) noexcept {
  if (bytes > slab_max_bytes) return bytes;
  return gyre::detail::slab_class_bytes[gyre::detail::slab_class_of(bytes)];
}

// Returns `bytes`, or their copy if they lie in `memory`, which is about to change.
std::span<const std::byte> copy_if_within(std::span<const std::byte> bytes,
                                          std::span<const std::byte> memory, buffer& copy) {
  const std::less<> less;
  const std::byte* const end = memory.data() + memory.size();
  if (less(bytes.data(), memory.data()) || !less(bytes.data(), end)) return bytes;
  copy.append(bytes);
  return copy.bytes();
}

}  // namespace

void buffer::free_storage() noexcept { slab_deallocate(storage_, allocated_size_); }

void buffer::move_to(std::size_t offset) noexcept {
  const std::size_t count = size();
  if (count != 0) std::memmove(storage_ + offset, begin_, count);
  begin_ = storage_ + offset;
  end_ = begin_ + count;
}

void buffer::reallocate(std::size_t bytes, std::size_t offset) {
  bytes = round_up(bytes);
  auto* const storage = static_cast<std::byte*>(slab_allocate(bytes));
  const std::size_t count = size();
  if (count != 0) std::memcpy(storage + offset, begin_, count);
  if (storage_ != nullptr) free_storage();
  storage_ = storage;
  allocated_size_ = bytes;
  begin_ = storage + offset;
  end_ = begin_ + count;
}

// Returns the capacity for `count` further bytes: at least twice the size, so that growing costs
// amortised O(1).
std::size_t buffer::capacity_for(std::size_t count) const {
  if (count > options_.max_size - size())
    throw std::length_error("buffer: larger than its maximum");
  return std::min(std::max(size() + count, 2 * size()), options_.max_size);
}

void buffer::make_tail_room(std::size_t count) {
  const std::size_t bytes = capacity_for(count);
  if (bytes <= capacity()) {
    move_to(headroom());
  } else {
    reallocate(std::max(headroom() + bytes, min_bytes), headroom());
  }
}

// Makes room in front of the bytes. Splits the free memory between front and end, so that neither
// runs out soon.
void buffer::make_front_room(std::size_t count) {
  const std::size_t bytes = capacity_for(count);
  const auto offset = [&](std::size_t memory) { return count + (memory - size() - count) / 2; };
  if (bytes <= capacity()) {
    move_to(offset(allocated_size_));
  } else {
    const std::size_t total = std::max(headroom() + bytes, min_bytes);
    reallocate(total, offset(total));
  }
}

void buffer::append_and_grow(std::span<const std::byte> bytes) {
  buffer copy;
  const std::span<const std::byte> source =
      copy_if_within(bytes, {storage_, allocated_size_}, copy);
  make_tail_room(bytes.size());
  append(source);
}

void buffer::prepend_and_grow(std::span<const std::byte> bytes) {
  buffer copy;
  const std::span<const std::byte> source =
      copy_if_within(bytes, {storage_, allocated_size_}, copy);
  make_front_room(bytes.size());
  prepend(source);
}

void buffer::shrink_to_fit() {
  if (empty()) {
    if (storage_ != nullptr) free_storage();
    forget_storage();
  } else if (round_up(headroom() + size()) < allocated_size_) {
    reallocate(headroom() + size(), headroom());
  }
}

}  // namespace gyre::io

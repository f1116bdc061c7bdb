// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/output_queue.hpp>

#include <gyre/base/detail/slab_object.hpp>

#include <algorithm>
#include <cassert>
#include <memory>

namespace gyre::io {
namespace {

constexpr std::size_t min_chunk = std::size_t{4} << 10;
constexpr std::size_t max_chunk = std::size_t{256} << 10;

// Returns whether copying the bytes would cost more than keeping their buffer with its unused
// memory.
bool is_worth_taking(const buffer& bytes) noexcept {
  return bytes.size() >= min_chunk && bytes.size() >= bytes.capacity() / 4;
}

}  // namespace

struct output_queue::chunk : gyre::detail::slab_object {
  explicit chunk(buffer&& content) noexcept : bytes(std::move(content)) {}

  chunk* next = nullptr;
  buffer bytes;
};

void output_queue::link(chunk& piece) noexcept {
  (last_ == nullptr ? first_ : last_->next) = &piece;
  last_ = &piece;
  size_ += piece.bytes.size();
}

void output_queue::drop_first() noexcept {
  const std::unique_ptr<chunk> chunk_to_drop(first_);
  first_ = chunk_to_drop->next;
  if (first_ == nullptr) last_ = nullptr;
  size_ -= chunk_to_drop->bytes.size();
}

void output_queue::append(std::span<const std::byte> bytes) {
  const std::size_t room = last_ == nullptr ? 0 : last_->bytes.tail_room();
  const std::span<const std::byte> head = bytes.first(std::min(room, bytes.size()));
  output_queue tail;
  for (auto rest = bytes.subspan(head.size()); !rest.empty();) {
    auto piece = std::make_unique<chunk>(buffer({.prepend = 0}));
    piece->bytes.reserve(std::clamp(std::max(rest.size(), size_), min_chunk, max_chunk));
    const std::size_t count = std::min(rest.size(), piece->bytes.tail_room());
    piece->bytes.append(rest.first(count));
    tail.link(*piece.release());
    rest = rest.subspan(count);
  }
  // No statement below can fail.
  if (!head.empty()) {
    last_->bytes.append(head);
    size_ += head.size();
  }
  append(std::move(tail));
}

void output_queue::append(buffer&& bytes) {
  if (is_worth_taking(bytes)) {
    link(*std::make_unique<chunk>(std::move(bytes)).release());
  } else {
    append(bytes.bytes());
    bytes.clear();
  }
}

void output_queue::append(output_queue&& other) noexcept {
  if (other.empty() || this == &other) return;
  (last_ == nullptr ? first_ : last_->next) = std::exchange(other.first_, nullptr);
  last_ = std::exchange(other.last_, nullptr);
  size_ += std::exchange(other.size_, 0);
}

std::size_t output_queue::gather(std::span<iovec> pieces) const noexcept {
  std::size_t count = 0;
  for (chunk* position = first_; position != nullptr && count < pieces.size();
       position = position->next) {
    const std::span<std::byte> bytes = position->bytes.mutable_bytes();
    pieces[count++] = {.iov_base = bytes.data(), .iov_len = bytes.size()};
  }
  return count;
}

void output_queue::consume(std::size_t count) noexcept {
  assert(count <= size_ && "consumes more than there is");
  while (count != 0) {
    const std::size_t part = std::min(count, first_->bytes.size());
    first_->bytes.consume(part);
    size_ -= part;
    count -= part;
    if (first_->bytes.empty()) drop_first();
  }
}

void output_queue::clear() noexcept {
  while (first_ != nullptr) drop_first();
}

}  // namespace gyre::io

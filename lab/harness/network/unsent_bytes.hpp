// SPDX-License-Identifier: Apache-2.0
// The output buffer of the bare loops and of uSockets' contenders, as uSockets has none: bytes that
// the kernel did not accept yet.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <utility>

namespace lab::network {

/// Bytes to be sent later, in memory from malloc; an empty buffer has no memory.
class unsent_bytes {
 public:
  unsent_bytes() = default;
  unsent_bytes(const unsent_bytes&) = delete;
  unsent_bytes& operator=(const unsent_bytes&) = delete;
  ~unsent_bytes() { std::free(bytes_); }

  void swap(unsent_bytes& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(size_, other.size_);
    std::swap(sent_, other.sent_);
    std::swap(capacity_, other.capacity_);
  }

  bool empty() const { return bytes_ == nullptr; }
  std::span<const std::byte> left() const { return {bytes_ + sent_, size_ - sent_}; }

  void append(std::span<const std::byte> data) {
    if (data.empty()) return;
    if (size_ + data.size() > capacity_) make_room(data.size());
    std::memcpy(bytes_ + size_, data.data(), data.size());
    size_ += data.size();
  }

  void drop(std::size_t sent) {
    sent_ += sent;
    if (sent_ < size_) return;
    std::free(bytes_);
    bytes_ = nullptr;
    size_ = sent_ = capacity_ = 0;
  }

 private:
  // Moves the rest to the front when most of the buffer is sent; otherwise doubles the buffer.
  void make_room(std::size_t more) {
    if (sent_ > size_ / 2) {
      size_ -= sent_;
      std::memmove(bytes_, bytes_ + sent_, size_);
      sent_ = 0;
      if (size_ + more <= capacity_) return;
    }
    const std::size_t wanted = std::max(2 * capacity_, size_ + more);
    auto* const grown = static_cast<std::byte*>(std::realloc(bytes_, wanted));
    if (grown == nullptr) throw std::bad_alloc();
    bytes_ = grown;
    capacity_ = wanted;
  }

  std::byte* bytes_ = nullptr;
  std::size_t size_ = 0;
  std::size_t sent_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace lab::network

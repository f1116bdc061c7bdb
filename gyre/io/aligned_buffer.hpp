// SPDX-License-Identifier: Apache-2.0
// aligned_buffer: memory of a fixed size for files opened with open_options::direct.
//
//     gyre::io::aligned_buffer block(1 << 20, table.direct_alignment());
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <utility>

namespace gyre::io {

/// Memory whose address and size are multiples of an alignment. Move-only.
///
/// A buffer of 2 MiB or more asks for huge pages, with which direct reads of large blocks were
/// about twice as fast: prefer one large buffer, of which operations use parts, to many small ones.
///
/// Thread-safety: one thread at a time moves or destroys the buffer; bytes() are plain memory.
/// Lifetime: bytes() stay where they are when the buffer is moved.
/// Errors: std::bad_alloc; std::invalid_argument for an alignment that is not a power of two.
/// Complexity: an allocation, and for 2 MiB or more an madvise(2).
class aligned_buffer {
 public:
  /// Makes a buffer without bytes.
  aligned_buffer() noexcept = default;
  /// Allocates at least `size` bytes, which are not initialised.
  explicit aligned_buffer(std::size_t size, std::size_t alignment = 4096);
  aligned_buffer(aligned_buffer&& other) noexcept
      : size_(std::exchange(other.size_, 0)), bytes_(std::move(other.bytes_)) {}
  aligned_buffer& operator=(aligned_buffer&& other) noexcept {
    size_ = std::exchange(other.size_, 0);
    bytes_ = std::move(other.bytes_);
    return *this;
  }
  ~aligned_buffer() = default;

  [[nodiscard]] std::span<std::byte> bytes() noexcept { return {bytes_.get(), size_}; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {bytes_.get(), size_}; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  struct deallocate {
    std::align_val_t alignment;
    void operator()(std::byte* bytes) const noexcept { ::operator delete(bytes, alignment); }
  };

  std::size_t size_ = 0;
  std::unique_ptr<std::byte, deallocate> bytes_;
};

}  // namespace gyre::io

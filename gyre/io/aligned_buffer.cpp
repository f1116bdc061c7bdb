// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/aligned_buffer.hpp>

#include <gyre/base/detail/system_memory.hpp>

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace gyre::io {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

std::size_t round_up(std::size_t size, std::size_t alignment) {
  if (!std::has_single_bit(alignment)) {
    throw std::invalid_argument("aligned_buffer: the alignment must be a power of two");
  }
  const std::size_t rounded_size = (size + alignment - 1) & ~(alignment - 1);
  // operator new rounds the size up further, which must not overflow.
  if (rounded_size < size || rounded_size > PTRDIFF_MAX) throw std::bad_alloc();
  return rounded_size;
}

}  // namespace

aligned_buffer::aligned_buffer(std::size_t size, std::size_t alignment)
    : size_(round_up(size, alignment)) {
  const std::size_t huge_bytes = size_ & ~(huge_page - 1);
  const std::align_val_t block_alignment{huge_bytes > 0 ? std::max(alignment, huge_page)
                                                        : alignment};
  bytes_ = {static_cast<std::byte*>(::operator new(size_, block_alignment)),
            deallocate{block_alignment}};
  if (huge_bytes > 0) gyre::detail::prefer_huge_pages({bytes_.get(), huge_bytes});
}

}  // namespace gyre::io

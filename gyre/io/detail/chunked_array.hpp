// SPDX-License-Identifier: Apache-2.0
// chunked_array: an array that grows by chunks, which stay in place: growth copies nothing and
// frees nothing, unlike a vector's. For tables by a handle's index.
#pragma once

#include <cassert>
#include <cstddef>
#include <memory>
#include <vector>

namespace gyre::io::detail {

/// Thread-safety: none.
/// Complexity: access is two loads; growth allocates a chunk of 1 KiB.
template <class T>
class chunked_array {
 public:
  std::size_t size() const noexcept { return size_; }
  T& operator[](std::size_t index) noexcept { return *find(index); }
  const T& operator[](std::size_t index) const noexcept { return *find(index); }
  /// Adds value-initialised elements until there are `size`. Throws std::bad_alloc.
  void grow_to(std::size_t size) {
    while (chunks_.size() * per_chunk < size) chunks_.push_back(std::make_unique<T[]>(per_chunk));
    if (size > size_) size_ = size;
  }

 private:
  static constexpr std::size_t per_chunk = [] {
    std::size_t count = 1;
    while (2 * count * sizeof(T) <= 1024) count *= 2;
    return count;
  }();

  T* find(std::size_t index) const noexcept {
    assert(index < size_);
    return &chunks_[index / per_chunk][index % per_chunk];
  }

  std::vector<std::unique_ptr<T[]>> chunks_;
  std::size_t size_ = 0;
};

}  // namespace gyre::io::detail

// SPDX-License-Identifier: Apache-2.0
// ring_buffer: holds the values of a bounded channel or a broadcast.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

namespace gyre::detail {

/// A queue of at most `capacity` values in one block of memory. T must move without throwing.
/// Thread-safety: none.
template <class T>
class ring_buffer {
 public:
  explicit ring_buffer(std::size_t capacity)
      : values_(capacity == 0 ? nullptr : std::allocator<T>().allocate(capacity)),
        capacity_(capacity) {}
  ring_buffer& operator=(ring_buffer&&) = delete;
  ~ring_buffer() {
    while (!empty()) pop();
    if (capacity_ != 0) std::allocator<T>().deallocate(values_, capacity_);
  }

  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] bool full() const noexcept { return size_ == capacity_; }

  /// Appends `value`. Requires !full().
  void push(T&& value) noexcept {
    std::construct_at(values_ + next_, std::move(value));
    if (++next_ == capacity_) next_ = 0;
    ++size_;
  }
  /// Returns the value at `index`, counted from the oldest.
  T& operator[](std::size_t index) noexcept {
    const std::size_t distance = size_ - index;
    return values_[next_ >= distance ? next_ - distance : next_ + capacity_ - distance];
  }
  /// Returns the oldest value. Requires !empty().
  T& front() noexcept { return (*this)[0]; }
  /// Destroys the oldest value. Requires !empty().
  void pop() noexcept {
    std::destroy_at(&front());
    --size_;
  }

 private:
  T* values_;
  std::size_t capacity_;
  std::size_t size_ = 0;
  std::size_t next_ = 0;  // the index of the next pushed value
};

}  // namespace gyre::detail

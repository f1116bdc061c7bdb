// SPDX-License-Identifier: Apache-2.0
// reserved_ring: a queue whose capacity was reserved before, so that pushing to it cannot fail.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace gyre::detail {

/// A first-in, first-out queue of small values, numbered in the order of their pushes. The queue
/// uses only as many slots, from the first one on, as it had values at once, rounded up to a power
/// of two. The other slots are not touched, so that a large queue which is mostly empty takes
/// little memory. An empty queue starts again at the first slot, whose memory is in the caches.
///
/// Thread-safety: none.
/// Complexity: each operation is O(1); push() and reserve() are amortised.
template <class T>
  requires std::is_trivially_copyable_v<T>
class reserved_ring {
 public:
  reserved_ring() = default;
  reserved_ring(const reserved_ring&) = delete;
  reserved_ring& operator=(const reserved_ring&) = delete;
  ~reserved_ring() { replace(nullptr, 0); }

  /// Sets the capacity to at least `values`. Throws std::bad_alloc.
  void reserve(std::size_t values) {
    if (values > capacity_) grow(values);
  }
  std::size_t size() const noexcept { return next_ - first_; }
  bool empty() const noexcept { return next_ == first_; }
  /// Adds `value` and returns its number. Requires that size() is below the reserved capacity.
  std::uint32_t push(T value) noexcept {
    if (size() == window_) [[unlikely]]
      widen();
    std::construct_at(&slot(next_), value);
    return next_++;
  }
  /// Removes and returns the oldest value. Requires !empty().
  T pop() noexcept {
    const T first = slot(first_++);
    if (empty()) clear();
    return first;
  }
  void clear() noexcept { first_ = next_ = 0; }
  /// Returns whether the queue has a value with the number `number`.
  bool has(std::uint32_t number) const noexcept { return number - first_ < size(); }
  /// Returns the value with the number `number`. Requires has(number).
  T& operator[](std::uint32_t number) noexcept { return slot(number); }

 private:
  static constexpr std::uint32_t min_window = 8;

  T& slot(std::uint32_t number) noexcept { return slots_[number & (window_ - 1)]; }
  // Doubles the window, which is full. Each value stays in its slot or moves to a new one.
  [[gnu::noinline, gnu::cold]] void widen() noexcept {
    const std::uint32_t new_window = std::max(2 * window_, min_window);
    for (std::uint32_t number = first_; number != next_; ++number) {
      const std::uint32_t index = number & (new_window - 1);
      if (index >= window_) std::construct_at(slots_ + index, slot(number));
    }
    window_ = new_window;
  }
  // The growth factor is four, because each block that was in use before has touched at least a
  // page, which the allocator keeps.
  void grow(std::size_t values) {
    std::size_t new_capacity = std::max<std::size_t>(capacity_, min_window);
    while (new_capacity < values) new_capacity *= 4;
    T* const new_slots = std::allocator<T>().allocate(new_capacity);
    for (std::uint32_t number = first_; number != next_; ++number) {
      std::construct_at(new_slots + (number & (window_ - 1)), slot(number));
    }
    replace(new_slots, new_capacity);
  }
  void replace(T* slots, std::size_t new_capacity) noexcept {
    if (capacity_ != 0) std::allocator<T>().deallocate(slots_, capacity_);
    slots_ = slots;
    capacity_ = new_capacity;
  }

  T* slots_ = nullptr;        // only values in the queue are constructed
  std::size_t capacity_ = 0;  // a number of values; zero or a power of two
  std::uint32_t window_ = 0;  // how many slots are used; zero or a power of two
  std::uint32_t first_ = 0;   // the number of the first value
  std::uint32_t next_ = 0;    // the number of the next pushed value
};

}  // namespace gyre::detail

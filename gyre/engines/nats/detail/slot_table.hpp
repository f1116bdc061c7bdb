// SPDX-License-Identifier: Apache-2.0
// slot_table: a slot map, which finds objects by keys that are never used again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace gyre::nats::detail {

/// A slot map. It makes the key of each object from the index of a slot and a generation number, so
/// that the key of an erased object finds nothing, even if its slot is in use again.
///
/// Complexity: O(1), without hashing; allocates when there are more objects than ever before.
template <class T>
class slot_table {
 public:
  /// Adds an object, and returns its key, which is at least 2^24. Throws std::bad_alloc.
  std::uint64_t insert(T& object) {
    if (free_slots_.empty()) {
      if (slots_.size() >> slot_bits != 0) throw std::bad_alloc();
      free_slots_.reserve(slots_.size() + 1);  // room for all slots, so that erase() cannot fail
      slots_.emplace_back();
      free_slots_.push_back(static_cast<std::uint32_t>(slots_.size() - 1));
    }
    const std::uint32_t index = free_slots_.back();
    free_slots_.pop_back();
    slots_[index] = {&object, ++sequence_ << slot_bits | index};
    return slots_[index].key;
  }
  /// Returns the object, or null if there is none.
  T* find(std::uint64_t key) const noexcept {
    const std::size_t index = index_of(key);
    if (index >= slots_.size() || slots_[index].key != key) return nullptr;
    return slots_[index].object;
  }
  /// Removes the object of the key, if there is one.
  void erase(std::uint64_t key) noexcept {
    if (find(key) == nullptr) return;
    const std::uint32_t index = index_of(key);
    slots_[index] = {};
    free_slots_.push_back(index);
  }
  std::size_t size() const noexcept { return slots_.size() - free_slots_.size(); }
  /// Calls `visit(T&)` for each object. It may erase objects.
  template <class Visit>
  void for_each(Visit visit) {
    for (std::size_t index = 0; index < slots_.size(); ++index) {
      if (slots_[index].object != nullptr) visit(*slots_[index].object);
    }
  }

 private:
  // The other 40 bits of a key are a sequence number: a million objects a second use it up in 12
  // days, and an old key must then still be in its slot to be mistaken for a new one.
  static constexpr unsigned slot_bits = 24;

  static std::uint32_t index_of(std::uint64_t key) noexcept {
    return static_cast<std::uint32_t>(key & ((std::uint64_t{1} << slot_bits) - 1));
  }

  struct slot {
    T* object = nullptr;
    std::uint64_t key = 0;
  };

  std::vector<slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::uint64_t sequence_ = 0;
};

}  // namespace gyre::nats::detail

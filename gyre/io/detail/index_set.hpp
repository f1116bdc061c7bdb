// SPDX-License-Identifier: Apache-2.0
// index_set: a set of small integers with O(1) insertion, removal and choice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gyre::io::detail {

/// Integers below a limit, in no order. Only reserve() allocates.
class index_set {
 public:
  /// Allows integers below `limit`. Throws std::bad_alloc.
  void reserve(std::size_t limit) {
    if (limit <= positions_.size()) return;
    positions_.resize(limit, nowhere);
    members_.reserve(positions_.capacity());  // not one by one
  }

  bool empty() const noexcept { return members_.empty(); }
  /// A member; there must be one.
  std::uint32_t any() const noexcept { return members_.back(); }

  void insert(std::uint32_t index) noexcept {
    if (positions_[index] != nowhere) return;
    positions_[index] = static_cast<std::uint32_t>(members_.size());
    members_.push_back(index);
  }

  void erase(std::uint32_t index) noexcept {
    const std::uint32_t position = positions_[index];
    if (position == nowhere) return;
    const std::uint32_t last = members_.back();
    members_[position] = last;
    positions_[last] = position;
    members_.pop_back();
    positions_[index] = nowhere;
  }

 private:
  static constexpr std::uint32_t nowhere = UINT32_MAX;

  std::vector<std::uint32_t> members_;
  std::vector<std::uint32_t> positions_;  // of each integer in members_
};

}  // namespace gyre::io::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gyre::io::detail {

/// Some of the numbers below a limit, each at most once, in no order. Everything takes the same time,
/// and only reserve() needs memory. One thread.
class index_set {
 public:
  /// From now on, holds numbers below `limit`. Throws std::bad_alloc.
  void reserve(std::size_t limit) {
    if (limit <= places_.size()) return;
    places_.resize(limit, nowhere);
    members_.reserve(places_.capacity());  // not one by one
  }

  bool empty() const noexcept { return members_.empty(); }
  /// One of them.
  std::uint32_t any() const noexcept { return members_.back(); }

  void insert(std::uint32_t index) noexcept {
    if (places_[index] != nowhere) return;
    places_[index] = static_cast<std::uint32_t>(members_.size());
    members_.push_back(index);
  }

  void erase(std::uint32_t index) noexcept {
    const std::uint32_t place = places_[index];
    if (place == nowhere) return;
    const std::uint32_t last = members_.back();
    members_[place] = last;
    places_[last] = place;
    members_.pop_back();
    places_[index] = nowhere;
  }

 private:
  static constexpr std::uint32_t nowhere = UINT32_MAX;

  std::vector<std::uint32_t> members_;
  std::vector<std::uint32_t> places_;  // of each number in members_
};

}  // namespace gyre::io::detail

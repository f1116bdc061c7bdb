// SPDX-License-Identifier: Apache-2.0
//
// The checker's own hash table: its one or two look-ups per operation determine the checker's
// speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gyre::model {

using fingerprint = std::uint64_t;

/// A hash of both; practically unique for as many values as memory holds.
inline fingerprint mix(fingerprint a, fingerprint b) {
  a ^= b + 0x9e3779b97f4a7c15 + (a << 6) + (a >> 2);
  a = (a ^ (a >> 30)) * 0xbf58476d1ce4e5b9;
  a = (a ^ (a >> 27)) * 0x94d049bb133111eb;
  return a ^ (a >> 31);
}

/// A map from 64-bit keys to numbers: open addressing, cleared in constant time.
class table {
 public:
  static constexpr unsigned missing = ~0U;

  /// The number of `key`; a new key is inserted with `missing`.
  unsigned& operator[](std::uint64_t key) {
    if (used_ * 2 >= slots_.size()) grow();
    for (std::size_t at = mix(key, 0);; ++at) {
      slot& each = slots_[at & (slots_.size() - 1)];
      if (each.generation == generation_) {
        if (each.key == key) return each.number;
        continue;
      }
      ++used_;
      each = {.key = key, .generation = generation_, .number = missing};
      return each.number;
    }
  }

  /// The number of `key`, or `missing`.
  unsigned find(std::uint64_t key) const {
    for (std::size_t at = mix(key, 0);; ++at) {
      const slot& each = slots_[at & (slots_.size() - 1)];
      if (each.generation != generation_) return missing;
      if (each.key == key) return each.number;
    }
  }

  void clear() {
    ++generation_;
    used_ = 0;
  }

 private:
  struct slot {
    std::uint64_t key;
    unsigned generation;
    unsigned number;
  };

  void grow() {
    const std::vector<slot> old = std::exchange(slots_, std::vector<slot>(slots_.size() * 2));
    const unsigned generation = std::exchange(generation_, 1);
    used_ = 0;
    for (const slot& each : old) {
      if (each.generation == generation) (*this)[each.key] = each.number;
    }
  }

  std::vector<slot> slots_ = std::vector<slot>(1024);
  unsigned generation_ = 1;
  std::size_t used_ = 0;
};

}  // namespace gyre::model

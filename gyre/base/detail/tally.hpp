// SPDX-License-Identifier: Apache-2.0
// Counting what one thread does, for others to read.
#pragma once

#include <gyre/base/atomic.hpp>

#include <cstdint>

namespace gyre::detail {

/// A count that one thread at a time writes, without a read-modify-write, and any thread reads.
class tally {
 public:
  /// release: whoever reads the new count sees what was done before.
  void add(std::uint64_t n) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_release);
  }
  void set(std::uint64_t n) noexcept { value_.store(n, std::memory_order_release); }
  std::uint64_t get() const noexcept {
    return value_.load(std::memory_order_acquire);  // pairs with the release in add() and set()
  }

 private:
  atomic<std::uint64_t> value_{0};
};

}  // namespace gyre::detail

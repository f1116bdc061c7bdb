// SPDX-License-Identifier: Apache-2.0
// relaxed_counter, published_counter: counters with one writer, without a read-modify-write.
#pragma once

#include <gyre/base/atomic.hpp>

#include <atomic>
#include <cstdint>

namespace gyre::detail {

/// A counter that one thread at a time writes and any thread reads. With `Publishing`, a reader of
/// a new count sees the writer's earlier writes.
template <bool Publishing>
class single_writer_counter {
 public:
  void add(std::uint64_t n) noexcept { set(value_.load(std::memory_order_relaxed) + n); }
  void subtract(std::uint64_t n) noexcept { set(value_.load(std::memory_order_relaxed) - n); }
  void set(std::uint64_t n) noexcept {
    value_.store(n, Publishing ? std::memory_order_release : std::memory_order_relaxed);
  }
  std::uint64_t get() const noexcept {
    // acquire: pairs with the release in set(). relaxed, without Publishing: the value is a
    // statistic.
    return value_.load(Publishing ? std::memory_order_acquire : std::memory_order_relaxed);
  }

 private:
  atomic<std::uint64_t> value_{0};
};

using relaxed_counter = single_writer_counter<false>;
using published_counter = single_writer_counter<true>;

}  // namespace gyre::detail

// SPDX-License-Identifier: Apache-2.0
// striped_cells: counts that many threads increase without sharing a cache line (after the
// LongAdder of D. Lea, Java 8).
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/cache_line.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace gyre::metrics::detail {

/// Returns the number of the calling thread, by which it chooses its cells: 0 for the first thread
/// that asks, 1 for the second. Not inlined, because a coroutine may be on another thread after
/// each suspension.
[[nodiscard]] std::size_t thread_number() noexcept;
/// Returns the number of stripes, a power of two: that of the CPUs when it is first called, at most
/// 64.
[[nodiscard]] std::size_t stripe_count();

/// An array of counts for each of several stripes. A thread adds to the stripe of its number, and a
/// reader sums the stripes up.
///
/// Thread-safety: any thread.
/// Complexity: memory of 8 bytes for each count and stripe, rounded up to cache lines for a stripe.
class striped_cells {
 public:
  /// Throws std::bad_alloc.
  explicit striped_cells(std::size_t counts);

  /// Adds to the count `index`. One atomic addition, without sharing unless there are more threads
  /// than stripes.
  void add(std::size_t index, std::uint64_t n) noexcept {
    at(stripe(), index)
        .fetch_add(n, std::memory_order_relaxed);  // relaxed: the statistic orders nothing
  }
  /// Adds to two counts of one stripe.
  void add(std::size_t index, std::uint64_t n, std::size_t other_index, std::uint64_t m) noexcept {
    line* const first = stripe();
    at(first, index)
        .fetch_add(n, std::memory_order_relaxed);  // relaxed: the statistic orders nothing
    at(first, other_index).fetch_add(m, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t sum(std::size_t index) const noexcept;

 private:
  using cell = gyre::detail::atomic<std::uint64_t>;

  struct alignas(cache_line_size) line {
    static constexpr std::size_t size = cache_line_size / sizeof(cell);
    std::array<cell, size> cells = {};
  };

  line* stripe() noexcept {
    return &lines_[(thread_number() & (stripes_ - 1)) * lines_per_stripe_];
  }
  static cell& at(line* stripe, std::size_t index) noexcept {
    return stripe[index / line::size].cells[index % line::size];
  }

  std::size_t stripes_;
  std::size_t lines_per_stripe_;
  std::unique_ptr<line[]> lines_;  // NOLINT(*-avoid-c-arrays): its size is not constant
};

}  // namespace gyre::metrics::detail

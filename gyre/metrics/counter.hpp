// SPDX-License-Identifier: Apache-2.0
// counter: a number of events, counted by many threads.
//
//     gyre::metrics::counter& orders = metrics.make_counter("shop_orders_total", "Placed orders.");
//     orders.add();
#pragma once

#include <gyre/metrics/detail/striped_cells.hpp>

#include <cstdint>

namespace gyre::metrics {

/// A count that only grows. registry::make_counter() makes one with a name.
///
/// Thread-safety: any thread.
/// Errors: the constructor throws std::bad_alloc.
/// Complexity: add() is one atomic addition to a cell that other threads seldom share; value() adds
/// up the cells, one for each CPU. 64 bytes for each CPU.
class counter {
 public:
  counter() = default;

  /// Adds `n` to the count.
  void add(std::uint64_t n = 1) noexcept { cells_.add(0, n); }
  /// Returns the count; additions that run meanwhile may be missing.
  [[nodiscard]] std::uint64_t value() const noexcept { return cells_.sum(0); }

 private:
  detail::striped_cells cells_{1};
};

}  // namespace gyre::metrics

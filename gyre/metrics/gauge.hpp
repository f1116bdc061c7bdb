// SPDX-License-Identifier: Apache-2.0
// gauge: a value that rises and falls, such as a number of open carts.
//
//     gyre::metrics::gauge& carts = metrics.make_gauge("shop_carts", "Carts that are not empty.");
//     carts.add(1);
//     carts.add(-1);
#pragma once

#include <gyre/base/atomic.hpp>

#include <atomic>

namespace gyre::metrics {

/// A value that rises and falls. registry::make_gauge() makes one with a name.
///
/// Thread-safety: any thread.
/// Complexity: one atomic operation.
class gauge {
 public:
  constexpr gauge() noexcept = default;

  // relaxed: the statistic orders nothing.

  /// Replaces the value.
  void set(double value) noexcept { value_.store(value, std::memory_order_relaxed); }
  /// Adds `difference`, which may be negative, to the value.
  void add(double difference) noexcept { value_.fetch_add(difference, std::memory_order_relaxed); }
  [[nodiscard]] double value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  gyre::detail::atomic<double> value_{0};
};

}  // namespace gyre::metrics

// SPDX-License-Identifier: Apache-2.0
// bucket_counts: values of many threads, counted in buckets with chosen limits.
#pragma once

#include <gyre/metrics/detail/striped_cells.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gyre::metrics::detail {

/// The counts of a histogram, and the sum of its values.
///
/// Thread-safety: any thread.
/// Complexity: record() is a binary search and two atomic additions.
class bucket_counts {
 public:
  /// Throws std::invalid_argument unless the limits rise.
  explicit bucket_counts(std::vector<std::uint64_t> limits);

  void record(std::uint64_t value) noexcept {
    const auto bucket = std::ranges::lower_bound(limits_, value) - limits_.begin();
    cells_.add(static_cast<std::size_t>(bucket), 1, limits_.size() + 1, value);
  }
  [[nodiscard]] std::span<const std::uint64_t> limits() const noexcept { return limits_; }
  /// Returns the number of values in each bucket, the last of which has no limit.
  [[nodiscard]] std::vector<std::uint64_t> counts() const;
  [[nodiscard]] std::uint64_t sum() const noexcept { return cells_.sum(limits_.size() + 1); }

 private:
  std::vector<std::uint64_t> limits_;
  striped_cells cells_;
};

}  // namespace gyre::metrics::detail

// SPDX-License-Identifier: Apache-2.0
// size_histogram: whole numbers, such as sizes in bytes, counted in buckets by many threads.
//
//     static constexpr std::array<std::uint64_t, 3> limits = {1024, 65536, 1048576};
//     auto& uploads = metrics.make_size_histogram("shop_upload_bytes", "Size of uploads.", limits);
//     uploads.record(body.size());
#pragma once

#include <gyre/metrics/detail/bucket_counts.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace gyre::metrics {

/// Whole numbers in buckets with chosen limits. registry::make_size_histogram() makes one with a
/// name.
///
/// Thread-safety: any thread.
/// Errors: the constructor throws std::invalid_argument for limits that do not rise.
/// Complexity: as duration_histogram.
class size_histogram {
 public:
  explicit size_histogram(std::span<const std::uint64_t> limits)
      : counts_({limits.begin(), limits.end()}) {}

  /// Counts the value in its bucket.
  void record(std::uint64_t value) noexcept { counts_.record(value); }
  /// The number of values in each bucket, one more than there are limits.
  [[nodiscard]] std::vector<std::uint64_t> counts() const { return counts_.counts(); }
  [[nodiscard]] std::uint64_t sum() const noexcept { return counts_.sum(); }
  [[nodiscard]] std::vector<double> limits() const {
    return {counts_.limits().begin(), counts_.limits().end()};
  }

 private:
  detail::bucket_counts counts_;
};

}  // namespace gyre::metrics

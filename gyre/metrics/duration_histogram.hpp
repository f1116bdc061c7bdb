// SPDX-License-Identifier: Apache-2.0
// duration_histogram: durations, counted in buckets by many threads.
//
//     auto& paid = metrics.make_duration_histogram("shop_payment_seconds", "Time of a payment.");
//     paid.record(end - begin);
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/metrics/detail/bucket_counts.hpp>
#include <gyre/metrics/exposition.hpp>

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

namespace gyre::metrics {

/// Durations in buckets with chosen limits. registry::make_duration_histogram() makes one with a
/// name. Unlike gyre::histogram, which has one writer and 7.5 KiB, it has many writers and few
/// buckets.
///
/// Thread-safety: any thread.
/// Errors: the constructor throws std::invalid_argument for limits that are negative or do not
/// rise.
/// Complexity: record() is a search among the limits and two atomic additions to cells that other
/// threads seldom share. For each CPU 8 bytes for each limit, and 16 more.
class duration_histogram {
 public:
  explicit duration_histogram(std::span<const duration> limits = exposition::default_limits)
      : counts_(to_nanoseconds(limits)) {}

  /// Counts `length`; a negative length counts as zero.
  void record(duration length) noexcept {
    counts_.record(length.count() < 0 ? 0 : static_cast<std::uint64_t>(length.count()));
  }
  /// The number of durations in each bucket, one more than there are limits.
  [[nodiscard]] std::vector<std::uint64_t> counts() const { return counts_.counts(); }
  [[nodiscard]] std::chrono::nanoseconds sum() const noexcept {
    return std::chrono::nanoseconds{counts_.sum()};
  }
  /// The limits, in seconds.
  [[nodiscard]] std::vector<double> limits() const;

 private:
  static std::vector<std::uint64_t> to_nanoseconds(std::span<const duration> limits);

  detail::bucket_counts counts_;
};

}  // namespace gyre::metrics

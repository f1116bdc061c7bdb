// SPDX-License-Identifier: Apache-2.0
// A histogram of latencies: recording a value costs a few nanoseconds and never allocates.
// Buckets grow with the value, 64 to each power of two, as in G. Tene's HdrHistogram (2012).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace lab {

/// Counts values from 0 to 2^64 - 1 and returns percentiles that are at most 1.6 % too high.
/// Values below 128 are kept exactly.
/// Thread-safety: one thread records.
/// Complexity: 30 KiB, no allocation.
class histogram {
 public:
  void record(std::uint64_t value) {
    ++counts_[bucket_of(value)];
    ++total_;
  }

  /// Adds the counts of another histogram.
  void merge(const histogram& other);

  /// The smallest recorded value that at least `percent` of all values do not exceed, rounded up to
  /// the end of its bucket; 0 when nothing was recorded. `percent` is from 0 to 100.
  std::uint64_t percentile(double percent) const;

  std::uint64_t total() const { return total_; }

 private:
  static constexpr unsigned precision = 6;
  static constexpr std::size_t per_octave = std::size_t{1} << precision;
  static constexpr std::size_t buckets = (64 - precision + 1) * per_octave;

  // A value of more than seven bits keeps its leading seven; the shift tells its octave.
  static std::size_t bucket_of(std::uint64_t value) {
    const auto bits = static_cast<unsigned>(std::bit_width(value));
    const unsigned shift = bits > precision + 1 ? bits - precision - 1 : 0;
    return shift * per_octave + static_cast<std::size_t>(value >> shift);
  }
  static std::uint64_t last_value_of(std::size_t bucket);

  std::array<std::uint64_t, buckets> counts_{};
  std::uint64_t total_ = 0;
};

}  // namespace lab

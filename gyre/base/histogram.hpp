// SPDX-License-Identifier: Apache-2.0
// histogram: counts durations in buckets that grow with the value, 16 for each power of two (after
// G. Tene's HdrHistogram, 2012).
//
//     gyre::histogram took;
//     took.record(end - begin);
//     const std::chrono::nanoseconds high = took.quantile(0.99);
#pragma once

#include <gyre/base/detail/relaxed_counter.hpp>
#include <gyre/base/duration.hpp>

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace gyre {

/// A log-linear histogram of durations. Quantiles are at most 1/32 (3.1 %) off, exact up to 31 ns.
///
/// Thread-safety: one thread at a time may record, merge and assign; any thread may read and copy
/// meanwhile, and sees some of the values that are being recorded: several reads are not a
/// consistent snapshot.
/// Complexity: 7.5 KiB of memory; never allocates.
class histogram {
 public:
  histogram() = default;
  histogram(const histogram& other) noexcept { merge(other); }
  histogram& operator=(const histogram& other) noexcept;

  /// Counts `length`; a negative length counts as zero. Some 4 ns, without atomic
  /// read-modify-write.
  void record(duration length) noexcept {
    const std::uint64_t value = length.count() < 0 ? 0 : static_cast<std::uint64_t>(length.count());
    counts_[bucket_of(value)].add(1);
    sum_.add(value);
    if (value > max_.get()) max_.set(value);
  }
  /// Adds the counts of `other`. Some 0.5 µs.
  void merge(const histogram& other) noexcept;

  /// Returns the number of recorded durations. Some 0.3 µs.
  [[nodiscard]] std::uint64_t count() const noexcept;
  /// Returns the number of recorded durations of at most `limit`, as exact as a quantile: each
  /// bucket counts as its middle. Some 0.3 µs.
  [[nodiscard]] std::uint64_t count_within(duration limit) const noexcept;
  /// Returns the duration that a share `q` (clamped to 0 … 1) of all durations does not exceed: 0.5
  /// gives the median, 1 the longest. The result is the middle of a bucket, at most max(); zero if
  /// nothing was recorded. Some 0.6 µs.
  [[nodiscard]] std::chrono::nanoseconds quantile(double q) const noexcept;
  /// Returns the exact sum of all durations.
  [[nodiscard]] std::chrono::nanoseconds sum() const noexcept {
    return std::chrono::nanoseconds{sum_.get()};
  }
  /// Returns the exact mean; zero if nothing was recorded.
  [[nodiscard]] std::chrono::nanoseconds mean() const noexcept;
  /// Returns the exact longest duration; zero if nothing was recorded.
  [[nodiscard]] std::chrono::nanoseconds max() const noexcept {
    return std::chrono::nanoseconds{max_.get()};
  }

 private:
  static constexpr unsigned precision = 4;
  static constexpr std::size_t per_octave = std::size_t{1} << precision;
  static constexpr unsigned value_bits = 63;  // values are non-negative 64-bit integers
  static constexpr std::size_t buckets = (value_bits - precision + 1) * per_octave;

  // Returns the bucket of `value`, which is given by the five leading bits and the shift, that is,
  // the octave.
  static constexpr std::size_t bucket_of(std::uint64_t value) noexcept {
    const auto bits = static_cast<unsigned>(std::bit_width(value));
    const unsigned shift = bits > precision + 1 ? bits - precision - 1 : 0;
    return shift * per_octave + static_cast<std::size_t>(value >> shift);
  }
  static std::uint64_t middle_of(std::size_t bucket) noexcept;

  std::array<detail::relaxed_counter, buckets> counts_{};
  detail::relaxed_counter sum_;
  detail::relaxed_counter max_;
};

}  // namespace gyre

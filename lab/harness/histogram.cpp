// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/histogram.hpp>

#include <algorithm>
#include <cmath>

namespace lab {

void histogram::merge(const histogram& other) {
  for (std::size_t i = 0; i < buckets; ++i) counts_[i] += other.counts_[i];
  total_ += other.total_;
}

std::uint64_t histogram::percentile(double percent) const {
  const auto rank = static_cast<std::uint64_t>(
      std::ceil(static_cast<double>(total_) * std::clamp(percent, 0.0, 100.0) / 100.0));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < buckets; ++i) {
    seen += counts_[i];
    if (seen != 0 && seen >= rank) return last_value_of(i);
  }
  return 0;
}

std::uint64_t histogram::last_value_of(std::size_t bucket) {
  const std::size_t octave = bucket / per_octave;
  const auto shift = static_cast<unsigned>(octave > 1 ? octave - 1 : 0);
  const std::uint64_t leading = bucket - shift * per_octave;
  return ((leading + 1) << shift) - 1;
}

}  // namespace lab

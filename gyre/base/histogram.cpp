// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/histogram.hpp>

#include <algorithm>
#include <cmath>

namespace gyre {

using std::chrono::nanoseconds;

histogram& histogram::operator=(const histogram& other) noexcept {
  if (this == &other) return *this;
  for (std::size_t i = 0; i < buckets; ++i) counts_[i].set(other.counts_[i].get());
  sum_.set(other.sum_.get());
  max_.set(other.max_.get());
  return *this;
}

void histogram::merge(const histogram& other) noexcept {
  for (std::size_t i = 0; i < buckets; ++i) {
    if (const std::uint64_t n = other.counts_[i].get(); n != 0) counts_[i].add(n);
  }
  sum_.add(other.sum_.get());
  max_.set(std::max(max_.get(), other.max_.get()));
}

std::uint64_t histogram::count() const noexcept {
  std::uint64_t total = 0;
  for (const detail::relaxed_counter& bucket_count : counts_) total += bucket_count.get();
  return total;
}

std::uint64_t histogram::count_within(duration limit) const noexcept {
  std::uint64_t total = 0;
  if (limit.count() < 0) return total;
  for (std::size_t i = 0; i < buckets; ++i) {
    if (middle_of(i) > static_cast<std::uint64_t>(limit.count())) break;
    total += counts_[i].get();
  }
  return total;
}

nanoseconds histogram::quantile(double q) const noexcept {
  const std::uint64_t total = count();
  if (total == 0) return nanoseconds{0};
  // Other threads may have increased buckets after count(); the rank is then reached earlier, never
  // later.
  const double rank =
      std::max(std::ceil(static_cast<double>(total) * std::clamp(q, 0.0, 1.0)), 1.0);
  std::uint64_t passed_values = 0;
  for (std::size_t i = 0; i < buckets; ++i) {
    passed_values += counts_[i].get();
    if (static_cast<double>(passed_values) >= rank && rank < static_cast<double>(total)) {
      return std::min(nanoseconds{middle_of(i)}, max());
    }
  }
  return max();
}

nanoseconds histogram::mean() const noexcept {
  const std::uint64_t total = count();
  return nanoseconds{total == 0 ? 0 : sum_.get() / total};
}

std::uint64_t histogram::middle_of(std::size_t bucket) noexcept {
  const std::size_t octave = bucket / per_octave;
  const auto shift = static_cast<unsigned>(octave > 1 ? octave - 1 : 0);
  const std::uint64_t first = (bucket - shift * per_octave) << shift;
  return first + ((std::uint64_t{1} << shift) - 1) / 2;
}

}  // namespace gyre

// SPDX-License-Identifier: Apache-2.0
#include <gyre/metrics/detail/bucket_counts.hpp>

#include <functional>
#include <stdexcept>
#include <utility>

namespace gyre::metrics::detail {

bucket_counts::bucket_counts(std::vector<std::uint64_t> limits)
    : limits_(std::move(limits)), cells_(limits_.size() + 2) {
  if (std::ranges::adjacent_find(limits_, std::ranges::greater_equal()) != limits_.end()) {
    throw std::invalid_argument("gyre::metrics: the limits of a histogram do not rise");
  }
}

std::vector<std::uint64_t> bucket_counts::counts() const {
  std::vector<std::uint64_t> counts(limits_.size() + 1);
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = cells_.sum(i);
  return counts;
}

}  // namespace gyre::metrics::detail

// SPDX-License-Identifier: Apache-2.0
#include <gyre/metrics/duration_histogram.hpp>

#include <stdexcept>

namespace gyre::metrics {

std::vector<double> duration_histogram::limits() const {
  std::vector<double> seconds;
  for (const std::uint64_t limit : counts_.limits()) {
    seconds.push_back(std::chrono::duration<double>(std::chrono::nanoseconds{limit}).count());
  }
  return seconds;
}

std::vector<std::uint64_t> duration_histogram::to_nanoseconds(std::span<const duration> limits) {
  std::vector<std::uint64_t> result;
  for (const duration& limit : limits) {
    if (limit.count() < 0) {
      throw std::invalid_argument("gyre::metrics: a limit of a histogram is negative");
    }
    result.push_back(static_cast<std::uint64_t>(limit.count()));
  }
  return result;
}

}  // namespace gyre::metrics

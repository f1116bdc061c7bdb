// SPDX-License-Identifier: Apache-2.0
#include <gyre/metrics/duration_histogram.hpp>

#include <stdexcept>

namespace gyre::metrics {

std::vector<double> duration_histogram::limits() const {
  std::vector<double> seconds;
  for (const std::uint64_t each : counts_.limits()) {
    seconds.push_back(std::chrono::duration<double>(std::chrono::nanoseconds{each}).count());
  }
  return seconds;
}

std::vector<std::uint64_t> duration_histogram::to_nanoseconds(std::span<const duration> limits) {
  std::vector<std::uint64_t> converted;
  for (const duration& each : limits) {
    if (each.count() < 0) {
      throw std::invalid_argument("gyre::metrics: a limit of a histogram is negative");
    }
    converted.push_back(static_cast<std::uint64_t>(each.count()));
  }
  return converted;
}

}  // namespace gyre::metrics

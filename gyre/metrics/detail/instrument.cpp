// SPDX-License-Identifier: Apache-2.0
#include <gyre/metrics/detail/instrument.hpp>

#include <gyre/metrics/counter.hpp>
#include <gyre/metrics/duration_histogram.hpp>
#include <gyre/metrics/exposition.hpp>
#include <gyre/metrics/gauge.hpp>
#include <gyre/metrics/size_histogram.hpp>

#include <chrono>
#include <cstdint>
#include <vector>

namespace gyre::metrics::detail {

void write_value(exposition& output, std::string_view name, std::string_view help,
                 const counter& value, label_view labels) {
  output.add_counter(name, help, value.value(), labels);
}

void write_value(exposition& output, std::string_view name, std::string_view help,
                 const gauge& value, label_view labels) {
  output.add_gauge(name, help, value.value(), labels);
}

void write_value(exposition& output, std::string_view name, std::string_view help,
                 const duration_histogram& value, label_view labels) {
  const std::vector<double> limits = value.limits();
  const std::vector<std::uint64_t> counts = value.counts();
  const double sum = std::chrono::duration<double>(value.sum()).count();
  output.add_bucket_histogram(name, help, {limits, counts, sum}, labels);
}

void write_value(exposition& output, std::string_view name, std::string_view help,
                 const size_histogram& value, label_view labels) {
  const std::vector<double> limits = value.limits();
  const std::vector<std::uint64_t> counts = value.counts();
  output.add_bucket_histogram(name, help, {limits, counts, static_cast<double>(value.sum())},
                              labels);
}

}  // namespace gyre::metrics::detail

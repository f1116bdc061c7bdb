// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/route_metrics.hpp>

#include <gyre/metrics/exposition.hpp>

#include <cstddef>

namespace gyre::http {
namespace {

void add_route(metrics::exposition& output, const route_metrics& counts,
               const std::string& prefix) {
  const auto& [method, pattern, responses, cut, body_bytes, durations] = counts;
  if (durations.count() == 0) return;
  for (std::size_t digit = 1; digit < responses.size(); ++digit) {
    if (responses[digit] == 0) continue;
    output.add_counter(
        prefix + "_responses_total", "Responses by route and status.", responses[digit],
        {{"method", method}, {"route", pattern}, {"code", std::to_string(digit) + "xx"}});
  }
  output.add_counter(prefix + "_responses_cut_total", "Responses that ended early.", cut,
                     {{"method", method}, {"route", pattern}});
  output.add_counter(prefix + "_response_bytes_total", "Bytes of the responses' bodies.",
                     body_bytes, {{"method", method}, {"route", pattern}});
  output.add_histogram(prefix + "_response_seconds", "Time until the end of the response.",
                       durations, {{"method", method}, {"route", pattern}});
}

}  // namespace

void add_route_metrics(metrics::exposition& output, std::span<const route_metrics> routes,
                       std::string_view prefix) {
  for (const route_metrics& route : routes) add_route(output, route, std::string(prefix));
}

void write_metrics(metrics::exposition& output, const route_metrics& counts) {
  add_route(output, counts, "gyre_http_route");
}

}  // namespace gyre::http

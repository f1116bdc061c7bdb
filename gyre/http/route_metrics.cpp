// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/route_metrics.hpp>

#include <gyre/http/metrics_text.hpp>

namespace gyre::http {

void add_route_metrics(metrics_text& text, std::span<const route_metrics> routes,
                       std::string_view prefix) {
  const auto for_each_used = [&](auto&& add) {
    for (const route_metrics& each : routes) {
      if (each.durations.count() != 0) add(each);
    }
  };
  const std::string name(prefix);
  for_each_used([&](const route_metrics& each) {
    for (std::size_t digit = 1; digit < each.responses.size(); ++digit) {
      if (each.responses[digit] == 0) continue;
      text.add_counter(name + "_responses_total", "Responses by route and status.",
                       each.responses[digit],
                       {{"method", each.method},
                        {"route", each.pattern},
                        {"code", std::to_string(digit) + "xx"}});
    }
  });
  for_each_used([&](const route_metrics& each) {
    text.add_counter(name + "_responses_cut_total", "Responses that ended early.", each.cut,
                     {{"method", each.method}, {"route", each.pattern}});
  });
  for_each_used([&](const route_metrics& each) {
    text.add_counter(name + "_response_bytes_total", "Bytes of the responses' bodies.",
                     each.body_bytes, {{"method", each.method}, {"route", each.pattern}});
  });
  for_each_used([&](const route_metrics& each) {
    text.add_histogram(name + "_response_seconds", "Time until the end of the response.",
                       each.durations, {{"method", each.method}, {"route", each.pattern}});
  });
}

}  // namespace gyre::http

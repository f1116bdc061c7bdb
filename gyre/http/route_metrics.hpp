// SPDX-License-Identifier: Apache-2.0
// route_metrics: the number and the durations of a route's responses.
//
//     server.get("/metrics", [&](gyre::http::request&) {
//       gyre::http::metrics_text text;
//       gyre::http::add_route_metrics(text, server.route_metrics());
//       return text.response();
//     });
#pragma once

#include <gyre/base/histogram.hpp>
#include <gyre/metrics/writable.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace gyre::http {

/// The counts of one route of a server, for which server_options::counts_routes is set: see
/// server::route_metrics(). The requests of HEAD count for the route of GET that handles them.
struct route_metrics {
  std::string method;   ///< the method that the route was added for, or "any"
  std::string pattern;  ///< such as "/users/{id}", or "(no route)"
  /// The number of responses by the first digit of their status. Responses that the server itself
  /// sends to malformed requests belong to no route.
  std::array<std::uint64_t, 6> responses = {};
  /// The number of responses among them that were cut off: see access_record::is_complete.
  std::uint64_t cut = 0;
  std::uint64_t body_bytes = 0;  ///< the sum of access_record::body_bytes
  histogram durations = {};      ///< see access_record::duration
};
/// Adds the counts as add_route_metrics() does, with the prefix `gyre_http_route`.
void write_metrics(metrics::exposition& output, const route_metrics& counts);

/// Adds the counts of routes to a page: `PREFIX_responses_total` with the labels method, route and
/// code ("2xx"), `PREFIX_responses_cut_total`, `PREFIX_response_bytes_total`, and the histogram
/// `PREFIX_response_seconds`. Routes without a response are left out.
///
/// Errors: those of metrics::exposition, also for two routes with the same method and pattern.
void add_route_metrics(metrics::exposition& output, std::span<const route_metrics> routes,
                       std::string_view prefix = "http");

}  // namespace gyre::http

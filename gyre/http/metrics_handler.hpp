// SPDX-License-Identifier: Apache-2.0
// metrics_handler: serves a registry of metrics to Prometheus and other monitoring systems.
//
//     server.get("/metrics", gyre::http::metrics_handler(metrics));
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/http/handler.hpp>
#include <gyre/metrics/exposition.hpp>
#include <gyre/metrics/registry.hpp>

#include <chrono>
#include <string_view>

namespace gyre::http {

/// Returns a handler that responds with the samples of `source`, in OpenMetrics if the client
/// accepts that at least as much as plain text, else in the text format of Prometheus.
///
/// Lifetime: `source` must outlive the server's stop.
/// Complexity: see metrics::registry::collect(), which waits for at most `limit`; it should be less
/// than the time-out of the monitoring system, which is 10 s by default.
[[nodiscard]] handler metrics_handler(const metrics::registry& source,
                                      duration limit = std::chrono::seconds{1});

/// Returns the format for a client with this field `Accept`; empty: the client has sent none.
[[nodiscard]] metrics::exposition_format choose_exposition_format(
    std::string_view accept_field) noexcept;

}  // namespace gyre::http

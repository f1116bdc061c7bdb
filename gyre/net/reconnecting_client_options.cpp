// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/reconnecting_client_options.hpp>

#include <gyre/metrics/exposition.hpp>

namespace gyre::net {

void write_metrics(metrics::exposition& output, const reconnecting_client_metrics& counts) {
  const auto& [waiting, attempts, failures, connected, broken, repetitions] = counts;
  output.add_gauge("gyre_reconnecting_client_waiting", "Calls that wait.", waiting);
  output.add_counter("gyre_reconnecting_client_attempts_total", "Attempts to connect.", attempts);
  output.add_counter("gyre_reconnecting_client_failures_total", "Attempts that failed.", failures);
  output.add_counter("gyre_reconnecting_client_connected_total", "Attempts that succeeded.",
                     connected);
  output.add_counter("gyre_reconnecting_client_broken_total", "Connections that were given up.",
                     broken);
  output.add_counter("gyre_reconnecting_client_repetitions_total", "Calls that were repeated.",
                     repetitions);
}

}  // namespace gyre::net

// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/redis/client_options.hpp>

#include <gyre/metrics/exposition.hpp>

namespace gyre::redis {

void write_metrics(metrics::exposition& output, const client_metrics& counts) {
  const auto& [in_flight, waiting, sessions, connections, commands, retries] = counts;
  output.add_gauge("gyre_redis_client_in_flight", "Commands without a reply.", in_flight);
  output.add_gauge("gyre_redis_client_waiting", "Calls that wait.", waiting);
  output.add_gauge("gyre_redis_client_sessions", "Sessions.", sessions);
  output.add_counter("gyre_redis_client_connections_total", "Connections that were made.",
                     connections);
  output.add_counter("gyre_redis_client_commands_total", "Commands.", commands);
  output.add_counter("gyre_redis_client_retries_total",
                     "Commands sent again after a lost connection.", retries);
}

}  // namespace gyre::redis

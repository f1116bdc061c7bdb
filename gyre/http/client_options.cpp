// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/client_options.hpp>

#include <gyre/metrics/exposition.hpp>

namespace gyre::http {

void write_metrics(metrics::exposition& output, const client_metrics& counts) {
  const auto& [origins, open, idle, http2_connections, requests, redirects, retries, hedges,
               hedges_used, hedges_denied, circuit_refusals, open_circuits] = counts;
  output.add_gauge("gyre_http_client_origins", "Hosts with a pool of connections.", origins);
  output.add_gauge("gyre_http_client_connections_open", "Connections, idle or in use.", open);
  output.add_gauge("gyre_http_client_connections_idle", "Connections that no request uses.", idle);
  output.add_gauge("gyre_http2_client_connections", "Connections of HTTP/2.", http2_connections);
  output.add_counter("gyre_http_client_requests_total", "Requests.", requests);
  output.add_counter("gyre_http_client_redirects_total", "Redirects that were followed.",
                     redirects);
  output.add_counter("gyre_http_client_retries_total",
                     "Requests repeated because their connection was closed or refused them.",
                     retries);
  output.add_counter("gyre_http_client_hedges_total", "Additional attempts.", hedges);
  output.add_counter("gyre_http_client_hedges_used_total",
                     "Requests whose response came from an additional attempt.", hedges_used);
  output.add_counter("gyre_http_client_hedges_denied_total",
                     "Additional attempts that were denied.", hedges_denied);
  output.add_counter("gyre_http_client_circuit_refusals_total",
                     "Requests that a circuit breaker refused.", circuit_refusals);
  output.add_gauge("gyre_http_client_circuits_open", "Circuit breakers that are not closed.",
                   open_circuits);
}

}  // namespace gyre::http

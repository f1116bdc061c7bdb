// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/tcp_server_options.hpp>

#include <gyre/metrics/exposition.hpp>

namespace gyre::net {

void write_metrics(metrics::exposition& output, const tcp_server_metrics& counts) {
  const auto& [accepted, refused, limited, failed_handshakes, accept_errors, connections, traffic] =
      counts;
  output.add_counter("gyre_tcp_server_accepted_total", "Connections, refused ones included.",
                     accepted);
  output.add_counter("gyre_tcp_server_refused_total", "Connections that were closed at once.",
                     refused);
  output.add_counter("gyre_tcp_server_limited_total",
                     "Refused connections above a limit of their address.", limited);
  output.add_counter("gyre_tcp_server_failed_handshakes_total",
                     "Refused connections whose TLS handshake failed.", failed_handshakes);
  output.add_counter("gyre_tcp_server_accept_errors_total", "Times that accepting had to pause.",
                     accept_errors);
  output.add_gauge("gyre_tcp_server_connections", "Open connections.", connections);
  write_metrics(output, traffic);
}

}  // namespace gyre::net

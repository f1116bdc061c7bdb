// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/udp_server_options.hpp>

#include <gyre/metrics/exposition.hpp>

namespace gyre::net {

void write_metrics(metrics::exposition& output, const udp_server_metrics& counts) {
  const auto& [received, sent, bytes_received, bytes_sent, truncated, refused, errors] = counts;
  output.add_counter("gyre_udp_server_received_total", "Datagrams received.", received);
  output.add_counter("gyre_udp_server_sent_total", "Datagrams sent.", sent);
  output.add_counter("gyre_udp_server_received_bytes_total", "Bytes received.", bytes_received);
  output.add_counter("gyre_udp_server_sent_bytes_total", "Bytes sent.", bytes_sent);
  output.add_counter("gyre_udp_server_truncated_total", "Datagrams dropped as too long.",
                     truncated);
  output.add_counter("gyre_udp_server_refused_total", "Replies above the limit of output.",
                     refused);
  output.add_counter("gyre_udp_server_errors_total", "Sends and receives that failed.", errors);
}

}  // namespace gyre::net

// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/connection_metrics.hpp>

#include <gyre/metrics/exposition.hpp>

namespace gyre::net {

void write_metrics(metrics::exposition& output, const connection_metrics& counts) {
  const auto& [bytes_received, bytes_sent, messages] = counts;
  output.add_counter("gyre_connection_received_bytes_total", "Bytes received.", bytes_received);
  output.add_counter("gyre_connection_sent_bytes_total", "Bytes sent.", bytes_sent);
  output.add_counter("gyre_connection_messages_total", "Calls of on_message.", messages);
}

}  // namespace gyre::net

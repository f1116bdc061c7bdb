// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/client_options.hpp>

#include <gyre/metrics/exposition.hpp>

namespace gyre::nats {

void write_metrics(metrics::exposition& output, const client_metrics& counts) {
  const auto& [in_flight, waiting, subscriptions, kept_bytes, servers, connected, published,
               published_bytes, received, received_bytes, dropped, late_replies, server_errors] =
      counts;
  output.add_gauge("gyre_nats_client_in_flight", "Requests without a reply.", in_flight);
  output.add_gauge("gyre_nats_client_waiting", "Calls that wait.", waiting);
  output.add_gauge("gyre_nats_client_subscriptions", "Subscriptions.", subscriptions);
  output.add_gauge("gyre_nats_client_kept_bytes", "Output kept for the next connection.",
                   kept_bytes);
  output.add_gauge("gyre_nats_client_servers", "Servers that the client knows.", servers);
  output.add_counter("gyre_nats_client_connected_total", "Logins that succeeded.", connected);
  output.add_counter("gyre_nats_client_published_total", "Messages published.", published);
  output.add_counter("gyre_nats_client_published_bytes_total", "Bytes published.", published_bytes);
  output.add_counter("gyre_nats_client_received_total", "Messages received.", received);
  output.add_counter("gyre_nats_client_received_bytes_total", "Bytes received.", received_bytes);
  output.add_counter("gyre_nats_client_dropped_total", "Messages that a queue had no room for.",
                     dropped);
  output.add_counter("gyre_nats_client_late_replies_total", "Replies that came too late.",
                     late_replies);
  output.add_counter("gyre_nats_client_server_errors_total", "Errors that servers have sent.",
                     server_errors);
}

}  // namespace gyre::nats

// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/service_info.hpp>

#include <gyre/metrics/exposition.hpp>

namespace gyre::nats {

// The last error is no metric, as a text belongs into a log.
void write_metrics(metrics::exposition& output, const endpoint_stats& counts) {
  const auto& [endpoint, requests, errors, refused, last_error, processing_time, running, waiting] =
      counts;
  const metrics::label name = {"endpoint", endpoint.name};
  output.add_counter("gyre_nats_endpoint_requests_total", "Requests.", requests, {name});
  output.add_counter("gyre_nats_endpoint_errors_total", "Replies that were errors.", errors,
                     {name});
  output.add_counter("gyre_nats_endpoint_refused_total", "Errors because too many requests waited.",
                     refused, {name});
  output.add_counter("gyre_nats_endpoint_processing_seconds_total",
                     "Time of all handlers together.", processing_time, {name});
  output.add_gauge("gyre_nats_endpoint_running", "Handlers that run.", running, {name});
  output.add_gauge("gyre_nats_endpoint_waiting", "Requests that wait for a handler.", waiting,
                   {name});
}

}  // namespace gyre::nats

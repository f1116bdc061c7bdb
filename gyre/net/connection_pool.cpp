// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/connection_pool.hpp>

#include <gyre/base/detail/duration_check.hpp>
#include <gyre/metrics/exposition.hpp>
#include <gyre/net/detail/errors.hpp>

namespace gyre::net::detail {

void check(const connection_pool_options& options) {
  require(options.max_open > 0 && options.max_open <= semaphore::max(),
          "gyre::net::connection_pool: max_open must be at least 1, and less than 2^62");
  gyre::detail::require_positive(options.idle_timeout, "gyre::net::connection_pool: idle_timeout");
  gyre::detail::require_positive(options.max_lifetime, "gyre::net::connection_pool: max_lifetime");
  gyre::detail::require_positive(options.connect_timeout,
                                 "gyre::net::connection_pool: connect_timeout");
  gyre::detail::require_not_negative(options.connecting.attempt_delay,
                                     "gyre::net::connection_pool: connecting.attempt_delay");
  gyre::detail::require_not_negative(options.connecting.resolution_delay,
                                     "gyre::net::connection_pool: connecting.resolution_delay");
}

}  // namespace gyre::net::detail

namespace gyre::net {

void write_metrics(metrics::exposition& output, const connection_pool_metrics& counts) {
  const auto& [open, idle, waiting, created, reused, discarded, failed] = counts;
  output.add_gauge("gyre_connection_pool_open", "Connections, idle or taken.", open);
  output.add_gauge("gyre_connection_pool_idle", "Connections that wait for use.", idle);
  output.add_gauge("gyre_connection_pool_waiting", "Callers that wait for a connection.", waiting);
  output.add_counter("gyre_connection_pool_created_total", "Connections that were made.", created);
  output.add_counter("gyre_connection_pool_reused_total", "Uses of an idle connection.", reused);
  output.add_counter("gyre_connection_pool_discarded_total", "Connections that were closed.",
                     discarded);
  output.add_counter("gyre_connection_pool_failed_total", "Connects that failed.", failed);
}

}  // namespace gyre::net

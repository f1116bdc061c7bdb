// SPDX-License-Identifier: Apache-2.0
// connection_metrics: counts of a callback connection, or of all of a server or client.
#pragma once

#include <gyre/metrics/writable.hpp>

#include <cstdint>

namespace gyre::net {

/// Counters of one connection since it began, or the sums over all connections of a server or
/// client.
struct connection_metrics {
  std::uint64_t bytes_received = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t messages = 0;  ///< calls of on_message
};
/// Adds the counts to an exposition: see metrics::registry.
void write_metrics(metrics::exposition& output, const connection_metrics& counts);

}  // namespace gyre::net

// SPDX-License-Identifier: Apache-2.0
// service_info, endpoint_stats: an instance of a service, and the counts of an endpoint.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/metrics/writable.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gyre::nats {

/// An endpoint, as an instance of a service describes it.
struct endpoint_info {
  std::string name = {};
  std::string subject = {};
  std::string queue_group = {};  ///< the queue group; empty: none
  std::map<std::string, std::string> metadata = {};
};

/// An instance of a service, from its reply to $SRV.INFO.
struct service_info {
  std::string name = {};
  std::string id = {};
  std::string version = {};
  std::string description = {};
  std::map<std::string, std::string> metadata = {};
  std::vector<endpoint_info> endpoints = {};
};

/// Counts of an endpoint since the service began, or reset_stats().
struct endpoint_stats {
  static constexpr bool is_read_on_owner = true;  ///< see metrics::registry::add()

  endpoint_info endpoint = {};
  std::uint64_t requests = 0;  ///< all requests, refused ones included
  std::uint64_t errors = 0;    ///< replies that were errors
  std::uint64_t refused = 0;   ///< errors because too many requests waited
  std::string last_error = {};
  duration processing_time = duration::zero();  ///< of all handlers together, their waits included
  std::size_t running = 0;                      ///< handlers that run at present
  std::size_t waiting = 0;                      ///< requests that wait for a handler at present
};
/// Adds the counts to an exposition: see metrics::registry.
void write_metrics(metrics::exposition& output, const endpoint_stats& counts);

}  // namespace gyre::nats

// SPDX-License-Identifier: Apache-2.0
// cache_options: the settings and counters of a cached Redis client.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/metrics/writable.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace gyre::redis {

/// Options of the memory of a cached_client.
struct cache_options {
  /// Bytes of the commands and replies that are kept, with 256 bytes for each of them and for each
  /// key; at least 1. The keys that were not read for the longest time make room.
  std::size_t max_bytes = std::size_t{64} << 20;
  /// The time after which a reply is read again, however often it was used; above zero.
  duration max_age = std::chrono::minutes{1};
};

/// Counts of a cached_client: now, and since it was constructed.
struct cache_metrics {
  static constexpr bool is_read_on_owner = true;  ///< see metrics::registry::add()

  std::size_t keys = 0;             ///< keys with replies that are kept
  std::size_t bytes = 0;            ///< memory, as cache_options::max_bytes counts it
  std::uint64_t hits = 0;           ///< reads from memory
  std::uint64_t misses = 0;         ///< reads from the server, or shared with one that runs
  std::uint64_t invalidations = 0;  ///< keys that the server has invalidated
};
/// Adds the counts to an exposition: see metrics::registry.
void write_metrics(metrics::exposition& output, const cache_metrics& counts);

}  // namespace gyre::redis

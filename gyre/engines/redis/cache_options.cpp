// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/redis/cache_options.hpp>

#include <gyre/metrics/exposition.hpp>

namespace gyre::redis {

void write_metrics(metrics::exposition& output, const cache_metrics& counts) {
  const auto& [keys, bytes, hits, misses, invalidations] = counts;
  output.add_gauge("gyre_redis_cache_keys", "Keys with replies that are kept.", keys);
  output.add_gauge("gyre_redis_cache_bytes", "Memory of the cache.", bytes);
  constexpr auto reads = "gyre_redis_cache_reads_total";
  output.add_counter(reads, "Reads by their result.", hits, {{"result", "hit"}});
  output.add_counter(reads, "Reads by their result.", misses, {{"result", "miss"}});
  output.add_counter("gyre_redis_cache_invalidations_total", "Keys that the server invalidated.",
                     invalidations);
}

}  // namespace gyre::redis

// SPDX-License-Identifier: Apache-2.0
#include <gyre/metrics/early_counts.hpp>

#include <gyre/base/slab.hpp>
#include <gyre/metrics/exposition.hpp>
#include <gyre/sync/async_cache.hpp>
#include <gyre/sync/keyed_rate_limiter.hpp>

namespace gyre {

void write_metrics(metrics::exposition& output, const async_cache_statistics& counts) {
  const auto& [hits, misses, loads, failures, evictions] = counts;
  constexpr auto lookups = "gyre_cache_lookups_total";
  output.add_counter(lookups, "Lookups by their result.", hits, {{"result", "hit"}});
  output.add_counter(lookups, "Lookups by their result.", misses, {{"result", "miss"}});
  output.add_counter("gyre_cache_loads_total", "Loads that were begun.", loads);
  output.add_counter("gyre_cache_load_failures_total", "Loads that ended by an error or a stop.",
                     failures);
  output.add_counter("gyre_cache_evictions_total", "Entries dropped to make room.", evictions);
}

void write_metrics(metrics::exposition& output, const keyed_rate_limiter_metrics& counts) {
  const auto& [allowed, refused, forgotten] = counts;
  constexpr auto requests = "gyre_rate_limiter_requests_total";
  output.add_counter(requests, "Requests by their result.", allowed, {{"result", "allowed"}});
  output.add_counter(requests, "Requests by their result.", refused, {{"result", "refused"}});
  output.add_counter("gyre_rate_limiter_forgotten_keys_total",
                     "Keys that were forgotten too early, because the memory was full.", forgotten);
}

void write_metrics(metrics::exposition& output, const slab_stats& counts) {
  const auto& [bytes_held, bytes_cached, bytes_parked, blocks_in_use, heaps, remote_frees,
               slabs_mapped, slabs_unmapped] = counts;
  output.add_gauge("gyre_slab_held_bytes", "Memory mapped for slabs.", bytes_held);
  output.add_gauge("gyre_slab_cached_bytes", "Memory of empty slabs, part of the mapped memory.",
                   bytes_cached);
  output.add_gauge("gyre_slab_parked_bytes", "Memory of frames that threads keep for reuse.",
                   bytes_parked);
  output.add_gauge("gyre_slab_blocks_in_use", "Blocks that are allocated.", blocks_in_use);
  output.add_gauge("gyre_slab_heaps", "The peak number of threads that used slabs at once.", heaps);
  output.add_counter("gyre_slab_remote_frees_total", "Blocks that another thread freed.",
                     remote_frees);
  output.add_counter("gyre_slab_maps_total", "Slabs taken from the system.", slabs_mapped);
  output.add_counter("gyre_slab_unmaps_total", "Slabs returned to the system.", slabs_unmapped);
}

}  // namespace gyre

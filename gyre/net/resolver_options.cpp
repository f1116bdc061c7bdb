// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/resolver_options.hpp>

#include <gyre/metrics/exposition.hpp>

namespace gyre::net {

void write_metrics(metrics::exposition& output, const dns_cache_metrics& counts) {
  const auto& [entries, bytes, hits, misses] = counts;
  output.add_gauge("gyre_dns_cache_entries", "Answers that are kept.", entries);
  output.add_gauge("gyre_dns_cache_bytes", "Memory of the answers.", bytes);
  constexpr auto lookups = "gyre_dns_lookups_total";
  output.add_counter(lookups, "Lookups by their result.", hits, {{"result", "hit"}});
  output.add_counter(lookups, "Lookups by their result.", misses, {{"result", "miss"}});
}

}  // namespace gyre::net

// SPDX-License-Identifier: Apache-2.0
// write_metrics of the counts in `base` and `sync`, which stand before `metrics`.
//
//     const auto counted_slabs = metrics.add_function([](gyre::metrics::exposition& output) {
//       write_metrics(output, gyre::read_slab_stats());
//     });
#pragma once

namespace gyre {

namespace metrics {
class exposition;
}  // namespace metrics

struct async_cache_statistics;
struct keyed_rate_limiter_metrics;
struct slab_stats;

/// Writes the counts of an object that knows no registry, for a function of registry::add().
void write_metrics(metrics::exposition& output, const async_cache_statistics& counts);
void write_metrics(metrics::exposition& output, const keyed_rate_limiter_metrics& counts);
void write_metrics(metrics::exposition& output, const slab_stats& counts);

}  // namespace gyre

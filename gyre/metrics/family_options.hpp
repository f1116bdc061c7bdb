// SPDX-License-Identifier: Apache-2.0
// family_options: the limit of the series of a family.
#pragma once

#include <cstddef>

namespace gyre::metrics {

/// Options of a family.
struct family_options {
  /// The maximum number of series, at least 1. Further combinations of label values share one
  /// series whose labels are all "other", so that values that clients choose cannot fill the
  /// memory; the counter `gyre_metrics_series_refused_total` counts their uses.
  std::size_t max_series = 1000;
};

}  // namespace gyre::metrics

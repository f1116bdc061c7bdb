// SPDX-License-Identifier: Apache-2.0
// route_counters: the counts of one route on one loop.
#pragma once

#include <gyre/base/detail/relaxed_counter.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/base/histogram.hpp>
#include <gyre/http/route_metrics.hpp>
#include <gyre/http/status.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace gyre::http::detail {

/// Thread-safety: the loop's thread records, and any thread reads.
class route_counters {
 public:
  void record(status code, std::uint64_t bytes, duration length, bool is_complete) noexcept {
    responses_[std::min(to_number(code) / 100, 5U)].add(1);
    if (!is_complete) cut_responses_.add(1);
    body_bytes_.add(bytes);
    durations_.record(length);
  }
  void add_to(http::route_metrics& sum) const noexcept {
    for (std::size_t i = 0; i < responses_.size(); ++i) sum.responses[i] += responses_[i].get();
    sum.cut += cut_responses_.get();
    sum.body_bytes += body_bytes_.get();
    sum.durations.merge(durations_);
  }

 private:
  std::array<gyre::detail::relaxed_counter, 6> responses_;
  gyre::detail::relaxed_counter cut_responses_;
  gyre::detail::relaxed_counter body_bytes_;
  histogram durations_;
};

}  // namespace gyre::http::detail

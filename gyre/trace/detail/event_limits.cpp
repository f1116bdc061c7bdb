// SPDX-License-Identifier: Apache-2.0
#include <gyre/trace/detail/event_limits.hpp>

#include <chrono>
#include <limits>

namespace gyre::trace::detail {
namespace {

constexpr gyre::detail::tick_count no_limit = std::numeric_limits<gyre::detail::tick_count>::max();

gyre::detail::tick_count ticks_of(duration limit) noexcept {
  // Beyond a year the number of ticks might overflow, and no event is that long.
  if (limit > std::chrono::hours(24 * 365)) return no_limit;
  return gyre::detail::measured_tick_rate().to_ticks(limit);
}

}  // namespace

constinit std::atomic<gyre::detail::tick_count> max_span_ticks{no_limit};
constinit std::atomic<gyre::detail::tick_count> max_request_ticks{no_limit};

void set_event_limits(duration span, duration request) noexcept {
  // relaxed: the settings order nothing.
  max_span_ticks.store(ticks_of(span), std::memory_order_relaxed);
  max_request_ticks.store(ticks_of(request), std::memory_order_relaxed);
}

}  // namespace gyre::trace::detail

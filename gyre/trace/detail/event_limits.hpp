// SPDX-License-Identifier: Apache-2.0
// event_limits: the lengths from which an event of the flight recorder is reported to a
// dump_writer.
#pragma once

#include <gyre/base/detail/ticks.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/trace/detail/event.hpp>

#include <atomic>

namespace gyre::trace::detail {

/// The limits of the present dump_writer, in ticks; the largest number without one. std::atomic,
/// not gyre's, because they order nothing.
extern constinit std::atomic<gyre::detail::tick_count> max_span_ticks;
extern constinit std::atomic<gyre::detail::tick_count> max_request_ticks;

/// Sets the limits; duration::max() is none. Any thread.
void set_event_limits(duration span, duration request) noexcept;

/// Whether the event is a span or a request that took longer than its limit. The handler of a
/// request that does not wait counts as the request. Any thread.
inline bool exceeds_limit(const event& entry) noexcept {
  // relaxed: the settings order nothing.
  switch (entry.kind) {
    case event_kind::span: return entry.length > max_span_ticks.load(std::memory_order_relaxed);
    case event_kind::handler:
    case event_kind::request:
      return entry.length > max_request_ticks.load(std::memory_order_relaxed);
    default: return false;
  }
}

}  // namespace gyre::trace::detail

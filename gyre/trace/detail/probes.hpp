// SPDX-License-Identifier: Apache-2.0
// fire_probe: the events of the flight recorder as static probes (USDT), for perf, bpftrace and
// SystemTap. Only in builds with GYRE_USDT=ON.
//
// > bpftrace -e 'usdt:./server:gyre:handler { @[str(arg0)] = hist(arg1); }'
#pragma once

#include <gyre/trace/detail/event.hpp>

namespace gyre::trace::detail {

/// Fires the probe of the event's kind. It does nothing unless a tool has switched the probe on.
void fire_probe(const event& entry) noexcept;

}  // namespace gyre::trace::detail

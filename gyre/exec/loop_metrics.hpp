// SPDX-License-Identifier: Apache-2.0
// loop_metrics: counters of an event loop.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gyre {

/// Counters of a loop since its construction; the last three fields are of the present.
struct loop_metrics {
  /// The poller's name, "epoll" or "uring"; "several" in the sum of different ones.
  const char* io = "";
  std::uint64_t tasks_run = 0;
  std::uint64_t tasks_refused = 0;  ///< by try_post()
  std::uint64_t timers_fired = 0;
  std::uint64_t io_events = 0;   ///< readiness reports and completions
  std::uint64_t exceptions = 0;  ///< given to on_exception
  std::uint64_t turns = 0;
  std::uint64_t polls = 0;        ///< system calls that asked for events without waiting
  std::uint64_t sleeps = 0;       ///< system calls that waited for events
  std::uint64_t wakeups = 0;      ///< system calls made by posting threads
  std::size_t tasks_pending = 0;  ///< an estimate; inbox::boost_lockfree: 0 or 1
  std::size_t timers_pending = 0;
  std::size_t descriptors_watched = 0;

  /// Adds the counters of another loop.
  loop_metrics& operator+=(const loop_metrics& other) noexcept;
};

}  // namespace gyre

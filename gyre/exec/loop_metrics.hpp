// SPDX-License-Identifier: Apache-2.0
// loop_metrics: counters of an event loop.
#pragma once

#include <gyre/base/histogram.hpp>
#include <gyre/metrics/writable.hpp>

#include <cstddef>
#include <cstdint>

namespace gyre {

/// Counters of a loop since its construction; the numbers of pending tasks, of timers and of
/// descriptors are current values.
struct loop_metrics {
  /// The poller's name, "epoll" or "uring"; "several" in a sum over different pollers.
  const char* io = "";
  std::uint64_t tasks_run = 0;
  std::uint64_t tasks_refused = 0;  ///< tasks refused by try_post()
  std::uint64_t timers_fired = 0;
  std::uint64_t io_events = 0;   ///< readiness reports and completions
  std::uint64_t exceptions = 0;  ///< exceptions passed to on_exception
  std::uint64_t turns = 0;
  std::uint64_t polls = 0;        ///< system calls that polled for events without waiting
  std::uint64_t sleeps = 0;       ///< system calls that waited for events
  std::uint64_t wakeups = 0;      ///< system calls made by posting threads
  std::size_t tasks_pending = 0;  ///< an estimate; only 0 or 1 with inbox::boost_lockfree
  std::size_t timers_pending = 0;
  std::size_t descriptors_watched = 0;
  /// The times from the deadlines of timers until the loop began to run them.
  histogram timer_lateness = {};
  /// The times from posts that woke the sleeping loop until the loop began to run their tasks.
  histogram wakeup_lateness = {};
  /// The times from posts, mostly to a loop that was awake, until the tasks began to run. Timed is
  /// one post in 500 to 2000: with inbox::fifo and inbox::sharded the first in each block of the
  /// inbox, except for the first block; with other inboxes none.
  histogram post_lateness = {};

  /// Adds the counters of `other`.
  loop_metrics& operator+=(const loop_metrics& other) noexcept;
};
/// Adds the counts to an exposition: see metrics::registry.
void write_metrics(metrics::exposition& output, const loop_metrics& counts);

}  // namespace gyre

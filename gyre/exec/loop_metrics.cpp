// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/loop_metrics.hpp>

#include <cstring>

namespace gyre {

loop_metrics& loop_metrics::operator+=(const loop_metrics& other) noexcept {
  if (*io == '\0') {
    io = other.io;
  } else if (*other.io != '\0' && std::strcmp(io, other.io) != 0) {
    io = "several";
  }
  tasks_run += other.tasks_run;
  tasks_refused += other.tasks_refused;
  timers_fired += other.timers_fired;
  io_events += other.io_events;
  exceptions += other.exceptions;
  turns += other.turns;
  polls += other.polls;
  sleeps += other.sleeps;
  wakeups += other.wakeups;
  tasks_pending += other.tasks_pending;
  timers_pending += other.timers_pending;
  descriptors_watched += other.descriptors_watched;
  return *this;
}

}  // namespace gyre

// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/loop_metrics.hpp>

#include <gyre/metrics/exposition.hpp>

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
  timer_lateness.merge(other.timer_lateness);
  wakeup_lateness.merge(other.wakeup_lateness);
  post_lateness.merge(other.post_lateness);
  return *this;
}

void write_metrics(metrics::exposition& output, const loop_metrics& counts) {
  const auto& [io, tasks_run, tasks_refused, timers_fired, io_events, exceptions, turns, polls,
               sleeps, wakeups, tasks_pending, timers_pending, descriptors_watched, timer_lateness,
               wakeup_lateness, post_lateness] = counts;
  output.add_gauge("gyre_loop_info", "The poller of the loop.", 1, {{"io", io}});
  output.add_counter("gyre_loop_tasks_run_total", "Tasks that the loop has run.", tasks_run);
  output.add_counter("gyre_loop_tasks_refused_total", "Tasks refused by a full inbox.",
                     tasks_refused);
  output.add_counter("gyre_loop_timers_fired_total", "Timers that have fired.", timers_fired);
  output.add_counter("gyre_loop_io_events_total", "Readiness reports and completions.", io_events);
  output.add_counter("gyre_loop_exceptions_total", "Exceptions passed to on_exception.",
                     exceptions);
  output.add_counter("gyre_loop_turns_total", "Turns of the loop.", turns);
  output.add_counter("gyre_loop_polls_total", "System calls that polled without waiting.", polls);
  output.add_counter("gyre_loop_sleeps_total", "System calls that waited for events.", sleeps);
  output.add_counter("gyre_loop_wakeups_total", "System calls of posting threads.", wakeups);
  output.add_gauge("gyre_loop_tasks_pending", "Tasks that wait to run.", tasks_pending);
  output.add_gauge("gyre_loop_timers_pending", "Timers that were started.", timers_pending);
  output.add_gauge("gyre_loop_descriptors_watched", "Descriptors that the loop watches.",
                   descriptors_watched);
  output.add_histogram("gyre_loop_timer_lateness_seconds",
                       "Time from the deadline of a timer until the loop began to run it.",
                       timer_lateness);
  output.add_histogram("gyre_loop_wakeup_lateness_seconds",
                       "Time from a post that woke the loop until the loop began to run its task.",
                       wakeup_lateness);
  output.add_histogram("gyre_loop_post_lateness_seconds",
                       "Time from a post until its task began to run, of one post in about 2000.",
                       post_lateness);
}

}  // namespace gyre

// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/pool_options.hpp>

#include <gyre/metrics/exposition.hpp>

namespace gyre {

void write_metrics(metrics::exposition& output, const thread_pool_metrics& counts) {
  const auto& [submitted, started, finished, dropped, refused, run_by_submitter, exceptions, steals,
               parks, wakeups, waiting, delayed, workers, queue_wait, run_time] = counts;
  output.add_counter("gyre_pool_tasks_submitted_total", "Accepted tasks.", submitted);
  output.add_counter("gyre_pool_tasks_started_total", "Tasks that a thread has begun.", started);
  output.add_counter("gyre_pool_tasks_finished_total", "Tasks that have ended.", finished);
  output.add_counter("gyre_pool_tasks_dropped_total", "Accepted tasks that were dropped.", dropped);
  output.add_counter("gyre_pool_tasks_refused_total", "Submissions that were refused.", refused);
  output.add_counter("gyre_pool_tasks_run_by_submitter_total", "Tasks run by their submitter.",
                     run_by_submitter);
  output.add_counter("gyre_pool_exceptions_total", "Exceptions passed to on_exception.",
                     exceptions);
  output.add_counter("gyre_pool_steals_total", "Times a worker took from another one's queue.",
                     steals);
  output.add_counter("gyre_pool_parks_total", "Times a worker went to sleep.", parks);
  output.add_counter("gyre_pool_wakeups_total", "Times a submission woke a worker.", wakeups);
  output.add_gauge("gyre_pool_tasks_waiting", "Tasks that wait for a worker.", waiting);
  output.add_gauge("gyre_pool_tasks_delayed", "Tasks that are not due yet.", delayed);
  output.add_gauge("gyre_pool_workers", "Threads of the pool.", workers);
  output.add_histogram("gyre_pool_wait_seconds",
                       "Time from submission to start, if the pool records times.", queue_wait);
  output.add_histogram("gyre_pool_run_seconds",
                       "Time from start to end, if the pool records times.", run_time);
}

}  // namespace gyre

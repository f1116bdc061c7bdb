// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/work/worker_options.hpp>

#include <gyre/metrics/exposition.hpp>

namespace gyre::work {

// The last error is no metric, as a text belongs into a log.
void write_metrics(metrics::exposition& output, const worker_metrics& counts) {
  const auto& [running, unreported, taken, finished, failed, cancelled, released, lost, leases_lost,
               takes, errors, last_error] = counts;
  output.add_gauge("gyre_worker_jobs_running", "Handlers that run.", running);
  output.add_gauge("gyre_worker_jobs_unreported", "Ended jobs whose result is not stored yet.",
                   unreported);
  output.add_counter("gyre_worker_jobs_taken_total", "Jobs that the worker has taken.", taken);
  output.add_counter("gyre_worker_jobs_finished_total", "Jobs that have finished.", finished);
  output.add_counter("gyre_worker_attempts_failed_total",
                     "Attempts that threw, or exceeded their time.", failed);
  output.add_counter("gyre_worker_jobs_cancelled_total", "Jobs that were cancelled.", cancelled);
  output.add_counter("gyre_worker_jobs_released_total", "Jobs given back without a failure.",
                     released);
  output.add_counter("gyre_worker_jobs_lost_total", "Jobs that ended too late.", lost);
  output.add_counter("gyre_worker_leases_lost_total", "Leases that were lost.", leases_lost);
  output.add_counter("gyre_worker_takes_total", "Statements that looked for jobs.", takes);
  output.add_counter("gyre_worker_errors_total", "Statements of the worker that failed.", errors);
}

}  // namespace gyre::work

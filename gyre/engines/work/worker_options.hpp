// SPDX-License-Identifier: Apache-2.0
// worker_options, handler_options, transaction_handler_options, worker_metrics: settings and
// counters of a worker.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/base/exponential_backoff.hpp>
#include <gyre/metrics/writable.hpp>
#include <gyre/task/executor.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace gyre::work {

/// Options of a handler of one kind of jobs.
struct handler_options {
  /// Jobs of the kind that this worker runs at the same time; at least 1. Choose hundreds for jobs
  /// of a few milliseconds, as a worker takes and ends as many with one statement as are free. See
  /// also kind_limits::max_running.
  std::size_t max_running = 16;
  /// The limit of an attempt whose job has none of its own; positive. A handler that ignores the
  /// stop keeps its slot until it ends.
  duration time_limit = std::chrono::minutes{10};
  /// The delays after failures: random times of at most these, and at least half of them.
  exponential_backoff delay = {.initial = std::chrono::seconds{1},
                               .longest = std::chrono::hours{1}};
  /// The executor of handlers: a pool for handlers that compute or block; null: the worker's loop.
  /// It must outlive the worker.
  gyre::executor* executor = nullptr;
};

/// Options of a handler that runs within a transaction of the worker.
struct transaction_handler_options {
  /// Jobs of one transaction; at least 1. A transaction has as many as are ready. More than some
  /// hundred save little, and are rolled back together.
  std::size_t max_jobs = 64;
  /// Jobs of the kind that this worker runs at the same time, in several transactions; at least 1.
  std::size_t max_running = 128;
  /// The limit of a call of the handler; positive. The least of it and of its jobs' own limits
  /// counts; after that each job gets a transaction with its own limit. The wait for a connection
  /// does not count.
  duration time_limit = std::chrono::minutes{1};
  /// The delays after failures: random times of at most these, and at least half of them.
  exponential_backoff delay = {.initial = std::chrono::seconds{1},
                               .longest = std::chrono::hours{1}};
};

/// Options of a worker.
struct worker_options {
  /// For the errors of jobs that it loses; empty: the client's application_name, its address and
  /// the number of the server's process.
  std::string name = {};
  /// Other workers take over the jobs when the database has not heard of this worker for so long;
  /// at least 1 s. Shorter ones take over earlier, and lose jobs of a worker that is merely slow.
  duration lease = std::chrono::seconds{30};
  /// The maximum number of jobs of all kinds that run at the same time, or have ended without their
  /// result being stored yet; at least 1.
  std::size_t max_running = 4096;
  /// The interval in which an idle worker looks for jobs whose notification was lost.
  duration poll_interval = std::chrono::seconds{1};
  /// The time that drain() waits for running handlers before it asks them to stop.
  duration drain_timeout = std::chrono::seconds{30};
  /// The limit of each statement, after which it is tried again.
  duration statement_timeout = std::chrono::seconds{10};
  /// The time for which dead jobs are kept. The worker that makes them dead decides.
  duration keep_dead = std::chrono::days{90};
  /// The time for which the keys of once(), and ended batches, are kept; the shortest of all
  /// workers counts. A job that runs again later than that repeats its effects.
  duration keep_done = std::chrono::days{30};
};

/// Counts of a worker, now and since it was constructed.
struct worker_metrics {
  static constexpr bool is_read_on_owner = true;  ///< see metrics::registry::add()

  std::size_t running = 0;     ///< handlers that run
  std::size_t unreported = 0;  ///< ended jobs whose result is not stored yet
  std::uint64_t taken = 0;     ///< jobs that the worker has taken
  std::uint64_t finished = 0;  ///< taken jobs that have finished, which is stored
  std::uint64_t failed = 0;    ///< attempts that threw, or exceeded their time
  std::uint64_t cancelled = 0;
  std::uint64_t released = 0;  ///< jobs given back without a failure
  std::uint64_t lost = 0;      ///< jobs that ended too late: another worker had them
  std::uint64_t leases_lost = 0;
  std::uint64_t takes = 0;   ///< statements that looked for jobs
  std::uint64_t errors = 0;  ///< statements of the worker that failed, and were tried again
  std::string last_error;
};
/// Adds the counts to an exposition: see metrics::registry.
void write_metrics(metrics::exposition& output, const worker_metrics& counts);

}  // namespace gyre::work

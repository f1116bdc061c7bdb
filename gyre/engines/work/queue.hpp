// SPDX-License-Identifier: Apache-2.0
// queue: submits durable jobs to a PostgreSQL database, and waits for their results.
//
//     gyre::work::queue jobs(db);
//
//     co_await db.transaction([&](gyre::postgres::transaction& tx) -> gyre::task<> {
//       co_await tx.execute("insert into picture (name) values ($1)", name);
//       co_await jobs.submit(tx, "resize", name, {.key = "resize:" + name});
//     });  // the picture and its job, or neither
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/engines/postgres/client.hpp>
#include <gyre/engines/postgres/querier.hpp>
#include <gyre/engines/postgres/subscription.hpp>
#include <gyre/engines/work/job_state.hpp>
#include <gyre/engines/work/schedule.hpp>
#include <gyre/engines/work/submission.hpp>
#include <gyre/metrics/writable.hpp>
#include <gyre/task/async_generator.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gyre::work {

/// Limits of a kind of jobs, over all workers.
struct kind_limits {
  /// The number of jobs of the kind that run at the same time; none: as many as the workers allow.
  std::optional<std::int32_t> max_running = std::nullopt;
  /// The number of scheduled and ready jobs. A further submission fails with errc::queue_full. They
  /// are counted every half second, up to every ten seconds if a million of them wait, so that a
  /// burst may exceed the limit meanwhile.
  std::int64_t max_waiting = 1'000'000;
  /// Whether workers take no job of the kind.
  bool is_paused = false;
};

/// Counts of the jobs of a kind.
struct kind_statistics {
  std::string kind;
  std::int64_t scheduled = 0;
  std::int64_t ready = 0;
  std::int64_t running = 0;
  std::int64_t finished = 0;  ///< jobs that are finished, and not removed yet
  std::int64_t dead = 0;
  std::int64_t cancelled = 0;
  /// The age of the ready job that has been due for longest, in milliseconds.
  std::optional<std::int64_t> oldest_ready_ms;
};
/// Adds the counts to an exposition: see metrics::registry.
void write_metrics(metrics::exposition& output, const kind_statistics& counts);

/// The effect of a request to cancel a job.
enum class cancel_result {
  cancelled,  ///< the job had not begun
  requested,  ///< the job's handler was asked to stop
  had_ended,
  unknown,  ///< there is no such job (any more)
};

/// The queue of durable jobs of a database, whose schema migrate() has made. A function that takes
/// a querier does its work in that transaction; if it is given a client, in a transaction of its
/// own.
///
/// The promise: a job whose submission was committed runs at least once, whatever dies. An effect
/// in the same database that its handler makes in a transaction with once() happens exactly once.
///
/// Thread-safety: the loop's thread of the client.
/// Lifetime: the client must outlive the queue, and the queue its calls.
/// Errors: of calls: work::errc; those of postgres::querier. std::invalid_argument for arguments
/// that make no sense.
/// Complexity: a statement, and the allocations of its result.
class queue {
 public:
  /// The limit of a payload and of a result, in bytes.
  static constexpr std::size_t max_payload = std::size_t{1} << 20;

  explicit queue(postgres::client& db) noexcept : db_(&db) {}

  /// Submits a job: it exists when the transaction is committed. Workers that wait are woken then.
  task<submitted_job> submit(postgres::querier& tx, std::string kind, std::string payload,
                             submit_options options = {});
  /// Submits many jobs with one statement: at most 10,000, with payloads of at most 16 MiB.
  task<std::vector<submitted_job>> submit_many(postgres::querier& tx, std::string kind,
                                               std::vector<new_job> jobs, job_options options = {});
  /// Submits many jobs as a batch, whose ended jobs are counted together. Jobs with keys that exist
  /// already do not belong to the batch.
  task<batch_id> submit_batch(postgres::querier& tx, std::string kind, std::vector<new_job> jobs,
                              job_options options = {}, batch_options batch = {});

  /// Gives the job's status; none if its row is gone, or was never there.
  [[nodiscard]] task<std::optional<job_status>> status(job_id id);
  /// Gives the job's status now and after each change that a program could wait for (progress of
  /// its handler, the final state), until it has ended or its row is gone. Changes in quick
  /// succession may be one. Jobs that are not kept (submit_options::keep) show their progress late.
  ///
  ///     auto changes = jobs.watch(id);
  ///     while (auto* status = co_await changes.next()) show(status->progress);
  [[nodiscard]] async_generator<job_status> watch(job_id id);
  /// Waits until the job has finished, and returns its result. Errors: errc::job_dead, with the
  /// error of its last attempt; job_cancelled; unknown_job if it is gone or was not kept.
  [[nodiscard]] task<std::string> result(job_id id);

  /// Returns the progress of a batch.
  [[nodiscard]] task<batch_status> status_of_batch(batch_id id);
  /// Waits until all jobs of the batch have ended.
  [[nodiscard]] task<batch_status> wait_for_batch(batch_id id);

  /// Cancels a job, or asks its handler to stop, which may finish it all the same.
  task<cancel_result> cancel(postgres::querier& tx, job_id id);
  /// Makes a dead job ready again, with `max_attempts` new attempts. Returns whether it was dead.
  task<bool> revive(postgres::querier& tx, job_id id);
  /// Gives up to `max_jobs` dead jobs of the kind whose ids are larger than `predecessor`, in the
  /// order of the ids.
  [[nodiscard]] task<std::vector<job_status>> dead_jobs(std::string kind, job_id predecessor = 0,
                                                        std::size_t max_jobs = 100);

  /// Adds or replaces the schedule of this name. Throws std::invalid_argument for a text that
  /// cron_expression does not accept.
  task<> set_schedule(postgres::querier& tx, std::string name, schedule entry);
  /// Removes a schedule. Returns whether there was one.
  task<bool> remove_schedule(postgres::querier& tx, std::string name);

  /// Sets the limits of the jobs of a kind, for all workers.
  task<> set_limits(postgres::querier& tx, std::string kind, kind_limits limits);
  /// Counts the jobs of all kinds: reads the whole table, so ask for it rarely.
  [[nodiscard]] task<std::vector<kind_statistics>> statistics();

 private:
  /// Waits until a notification has the word, or it is time to poll.
  static task<> wait_for_change(postgres::subscription& changes, std::string_view word);

  postgres::client* db_;
};

}  // namespace gyre::work

// SPDX-License-Identifier: Apache-2.0
// submit_options, job_options, new_job, submitted_job: jobs on their way into a queue.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/engines/work/job_state.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gyre::work {

/// A time by the clock of the database's server.
using server_time = std::chrono::sys_time<std::chrono::microseconds>;

/// Options of jobs that are submitted together.
struct job_options {
  /// A job that has failed so often is dead; at least 1. An attempt whose worker was lost counts,
  /// one that a worker gave back in order to end does not.
  std::int32_t max_attempts = 20;
  /// The limit of one attempt; none: handler_options::time_limit.
  std::optional<duration> time_limit = std::nullopt;
  /// The time for which the job's row, with its result, remains after it has finished or was
  /// cancelled. With zero it does not remain, which is cheapest; then nobody can wait for its
  /// result. None: zero for a job without a key, a day for one with a key.
  std::optional<duration> keep = std::nullopt;
};

/// Options of a job. Texts must outlive the call.
struct submit_options {
  /// While there is a job of the same kind and key, that is until `keep` has passed after its end,
  /// a submission returns that job and adds none. An empty text means no key. At most 1000 bytes.
  std::string_view key = {};
  /// Ready jobs of a higher number are taken first, then those submitted first.
  std::int16_t priority = 0;
  /// The time before which the job does not run; none: at once.
  std::optional<server_time> run_at = std::nullopt;
  std::int32_t max_attempts = 20;                     ///< see job_options
  std::optional<duration> time_limit = std::nullopt;  ///< see job_options
  std::optional<duration> keep = std::nullopt;        ///< see job_options
};

/// A job of a submission of many.
struct new_job {
  /// Bytes for the handler, of at most `queue::max_payload`.
  std::string payload;
  std::string key = {};                              ///< see submit_options
  std::int16_t priority = 0;                         ///< see submit_options
  std::optional<server_time> run_at = std::nullopt;  ///< see submit_options
};

/// The result of a submission.
struct submitted_job {
  job_id id = 0;
  /// Whether the submission has added the job: else there was one with its key.
  bool is_new = true;
};

/// The number of a batch.
using batch_id = std::int64_t;

/// Options of a batch of jobs. Texts must outlive the call.
struct batch_options {
  /// The kind of a job that is submitted when all of the batch have ended; empty: none. It is added
  /// even if its queue is full, and kept for a day.
  std::string_view then_kind = {};
  /// The payload of that job.
  std::string_view then_payload = {};
};

/// The progress of a batch: `size` is the number of its jobs, without those whose keys belonged to
/// earlier jobs.
struct batch_status {
  std::int64_t size = 0;
  std::int64_t pending = 0;  ///< jobs that have not ended
  std::int64_t finished = 0;
  std::int64_t dead = 0;
  std::int64_t cancelled = 0;
};

}  // namespace gyre::work

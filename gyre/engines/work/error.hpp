// SPDX-License-Identifier: Apache-2.0
// work::errc: errors of durable jobs.
//
//     try {
//       co_await jobs.submit(tx, "resize", picture);
//     } catch (const std::system_error& error) {
//       if (error.code() != gyre::work::errc::queue_full) throw;
//     }
#pragma once

#include <stdexcept>
#include <system_error>
#include <type_traits>

namespace gyre::work {

/// Errors of queues, workers and jobs.
enum class errc {
  /// As many jobs of the kind wait as kind_limits::max_waiting allows;
  /// std::errc::resource_unavailable_try_again.
  queue_full = 1,
  /// The database has no schema for jobs, or an old one: call migrate().
  schema_missing = 2,
  /// The attempt is not the job's current one any more: another worker has the job, or it has
  /// ended. The transaction must be rolled back.
  attempt_taken_over = 3,
  unknown_job = 4,    ///< there is none, or its row was removed after `keep`
  job_dead = 5,       ///< it failed `max_attempts` times, or with permanent_failure
  job_cancelled = 6,  ///< std::errc::operation_canceled
  unknown_batch = 7,
};

/// The category of errc, "gyre.work". Any thread.
const std::error_category& work_category() noexcept;
std::error_code make_error_code(errc code) noexcept;

/// A failure that a further attempt would only repeat. A handler that throws it makes its job dead
/// at once.
class permanent_failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace gyre::work

template <>
struct std::is_error_code_enum<gyre::work::errc> : std::true_type {};

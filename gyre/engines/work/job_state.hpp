// SPDX-License-Identifier: Apache-2.0
// job_state, job_status: what becomes of a job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gyre::work {

/// The number of a job, given at its submission and never used again.
using job_id = std::int64_t;

/// The states of a job.
///
///                  .------------- failed, delay ------------.
///                  v                                        |
///     submit -> scheduled -- due --> ready -- taken --> running --> finished
///         '----------------------------^                 |    '---> dead
///                                       '---- released --'    '---> cancelled
enum class job_state {
  scheduled,  ///< the job waits for its time
  ready,      ///< the job waits for a worker
  running,
  finished,
  dead,  ///< failed too often, or for good; see queue::revive()
  cancelled,
};

/// Returns the state's name: "scheduled" and so on.
[[nodiscard]] std::string_view name_of(job_state state) noexcept;

/// Whether a job of this state will not run again by itself.
[[nodiscard]] constexpr bool has_ended(job_state state) noexcept {
  return state == job_state::finished || state == job_state::dead || state == job_state::cancelled;
}

/// The state of a job at the time of the call that returned it.
struct job_status {
  job_id id = 0;
  std::string kind;
  job_state state = job_state::scheduled;
  /// The number of times that a worker has taken the job.
  std::int32_t attempt = 0;
  /// Attempts that failed, or whose worker was lost, and so count against `max_attempts`.
  std::int32_t failures = 0;
  /// The share of 1 that its handler has reported last.
  std::optional<double> progress;
  std::string progress_note;
  /// The reason for which the last attempt failed.
  std::string error;
  /// The bytes that its handler has returned.
  std::string result;

  friend bool operator==(const job_status&, const job_status&) = default;
};

}  // namespace gyre::work

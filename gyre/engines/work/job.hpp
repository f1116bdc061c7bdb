// SPDX-License-Identifier: Apache-2.0
// job: one attempt at a durable job, as its handler sees it.
//
//     gyre::task<std::string> resize(gyre::work::job& job) {
//       const picture source = co_await load(job.payload());
//       job.report_progress(0.5, "loaded");
//       co_return co_await store(shrink(source));
//     }
#pragma once

#include <gyre/engines/work/job_state.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task_local.hpp>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace gyre::work {

namespace detail {

class worker_core;

/// Why a handler was asked to stop; the first reason counts.
enum class stop_reason { none, cancelled, lease_lost, draining };

/// The number of a worker in the database, which with a job's attempt is its fencing token.
using worker_id = std::int64_t;

/// A job as work.take() returns it.
struct taken_job {
  job_id id = 0;
  std::string kind;
  std::int32_t attempt = 0;
  std::int32_t failures = 0;
  std::int32_t max_attempts = 1;
  std::optional<std::int64_t> time_limit_ms;
  std::string payload;
  std::string key;
};

}  // namespace detail

/// An attempt at a job. Its handler is asked to stop when the time limit has passed, the job is
/// cancelled, the worker has lost its lease, or has waited too long for it to end.
///
/// Thread-safety: any thread.
/// Lifetime: that of the handler's coroutine.
class job {
 public:
  job(detail::taken_job row, detail::worker_id worker) noexcept;
  job(const job&) = delete;
  job& operator=(const job&) = delete;
  ~job();

  [[nodiscard]] job_id id() const noexcept { return row_.id; }
  [[nodiscard]] const std::string& kind() const noexcept { return row_.kind; }
  [[nodiscard]] const std::string& payload() const noexcept { return row_.payload; }
  /// Returns the key; empty if the job has none.
  [[nodiscard]] const std::string& key() const noexcept { return row_.key; }
  /// Returns how often workers have taken the job, this time included.
  [[nodiscard]] std::int32_t attempt() const noexcept { return row_.attempt; }
  /// Earlier attempts that count against max_attempts().
  [[nodiscard]] std::int32_t failures() const noexcept { return row_.failures; }
  [[nodiscard]] std::int32_t max_attempts() const noexcept { return row_.max_attempts; }

  /// Notes how far the handler has come, a share of 1, and what it does, of at most 1000 bytes. A
  /// share that is NaN counts as 0. The worker stores the latest note about once a second, unless a
  /// transaction holds a lock on the job just then.
  void report_progress(double share, std::string_view note = {});

 private:
  friend detail::worker_core;

  struct noted_progress {
    float share = 0;
    std::string note;
  };

  std::optional<noted_progress> take_progress();
  void request_stop(detail::stop_reason reason) noexcept;

  const detail::taken_job row_;
  const detail::worker_id worker_;
  const std::uint64_t begin_ticks_;  // the start time, in ticks of the flight recorder
  detail::stop_reason reason_ = detail::stop_reason::none;
  inplace_stop_source stop_;
  // The source of a transaction of several jobs; null for a job that runs alone.
  inplace_stop_source* shared_stop_ = nullptr;
  std::mutex mutex_;
  std::optional<noted_progress> progress_;
};

namespace detail {

/// The token of an attempt, which once() checks.
struct attempt_token {
  job_id job = 0;
  std::int32_t attempt = 0;
  worker_id worker = 0;
};
/// The attempt whose handler runs.
extern const task_local<std::optional<attempt_token>> current_attempt;

}  // namespace detail

}  // namespace gyre::work

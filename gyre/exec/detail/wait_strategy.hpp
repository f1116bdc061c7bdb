// SPDX-License-Identifier: Apache-2.0
// wait_strategy: decides how long a loop without work stays awake before it sleeps.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/adaptive_attempt.hpp>
#include <gyre/base/detail/spin_budget.hpp>
#include <gyre/exec/detail/yield_schedule.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace gyre {
class event_loop;
}  // namespace gyre

namespace gyre::detail {

/// Falling asleep may cost a heavy fence, and waking up costs far more. Each mechanism below stays
/// awake for a little time if that has avoided a sleep recently:
///
/// | mechanism | runs when | ends when |
/// |---|---|---|
/// | poll before sleeping | descriptors are watched and polling has found I/O | after one poll |
/// | gather | tasks come in large batches and nothing is watched | 2048 wait, 25 us, or none comes |
/// | spin | tasks have come since the last sleep, or nothing is watched | the spin budget is used up |
/// | busy poll | loop_options::busy_poll is set and has found work | its time has passed |
class wait_strategy {
 public:
  explicit wait_strategy(std::chrono::nanoseconds busy_poll) noexcept
      : busy_poll_time_(busy_poll) {}
  /// Returns the most tasks of the next batch: `limit`, or the number that wait if tasks come in
  /// large batches.
  std::size_t next_batch(event_loop& loop, bool is_watching, std::size_t limit) noexcept {
    const bool must_gather = last_batch_ >= large_batch && !is_watching;
    return must_gather ? std::min(choose_batch_limit(loop), limit) : limit;
  }
  /// Records a batch of tasks that has run.
  void record_batch(std::size_t tasks) noexcept {
    last_batch_ = tasks;
    has_run_tasks_ = true;
  }
  /// Polls for I/O if that has found I/O recently. Returns whether it found some.
  bool poll_before_sleeping(event_loop& loop, bool is_watching);
  /// Stays awake if that has avoided sleeps recently. Returns true if there is work, or `deadline`
  /// was reached; false if the loop must sleep.
  bool stay_awake(event_loop& loop, bool is_watching, steady_time deadline);

 private:
  static constexpr std::size_t large_batch = 16;

  /// Waits shortly for more tasks. Returns the most tasks of the next batch.
  std::size_t choose_batch_limit(event_loop& loop) noexcept;
  bool spin(event_loop& loop, bool is_watching, steady_time deadline);
  void record_failure() noexcept;  // of a spin
  bool poll_busily(event_loop& loop, bool is_watching, steady_time deadline);

  const std::chrono::nanoseconds busy_poll_time_;
  spin_budget spin_budget_;
  yield_schedule yields_;
  adaptive_attempt poll_first_{0, 1};
  adaptive_attempt gather_{1, 1};
  adaptive_attempt busy_poll_{adaptive_attempt::max_score, adaptive_attempt::max_score};
  std::size_t last_batch_ = 0;  // the number of tasks in the last batch
  bool has_run_tasks_ = false;  // whether a batch has run tasks since the last sleep
};

}  // namespace gyre::detail

// SPDX-License-Identifier: Apache-2.0
// interval: ticks at a fixed period, without drift.
//
//     gyre::interval every(1s);
//     for (;;) {
//       const gyre::steady_time due = co_await every.tick();
//       publish(measure(), due);
//     }
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/sleep.hpp>

#include <algorithm>
#include <chrono>
#include <coroutine>
#include <expected>
#include <optional>
#include <system_error>

namespace gyre {

class interval;

/// The schedule of an interval after ticks that were missed, because work between the ticks took
/// longer than a period or the executor was busy.
///
/// With a period of 10 ms, and a tick() for the tick of 10 ms that is awaited at 35 ms:
///
/// | policy | ticks are returned at | with their scheduled times |
/// |---|---|---|
/// | skip | 35, 40, 50, 60 | 10, 40, 50, 60 |
/// | burst | 35, 35, 35, 40 | 10, 20, 30, 40 |
/// | delay | 35, 45, 55, 65 | 10, 45, 55, 65 |
///
/// Source: Tokio's MissedTickBehavior.
enum class missed_ticks {
  /// Leaves out the missed ticks, and keeps to multiples of the period. The default: a program that
  /// is too slow does not fall further behind with each tick.
  skip,
  /// Returns the missed ticks one after the other, so that none is left out.
  burst,
  /// Starts a new schedule at a tick that was missed or awaited late, so that the next tick comes a
  /// period later.
  delay,
};

/// Options of an interval.
struct interval_options {
  missed_ticks missed = missed_ticks::skip;
  /// The delay of the first tick(). Zero, the default, means that it returns at once.
  duration first_delay = duration::zero();
};

namespace detail {

/// The awaiter of interval::tick().
class interval_tick {
 public:
  explicit interval_tick(interval& owner) noexcept : interval_(&owner) {}

  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) noexcept {
    return begin(*context_of(coroutine).where).await_suspend(coroutine);
  }
  steady_time await_resume();
  std::expected<steady_time, std::error_code> result();

 private:
  sleep_awaiter& begin(executor& target) noexcept;

  interval* interval_;
  timer_service* timers_ = nullptr;
  steady_time due_{};
  // Whether the tick was due before it was awaited; set for missed_ticks::delay only.
  bool is_late_ = false;
  std::optional<sleep_awaiter> sleep_;
};

}  // namespace detail

/// A schedule of ticks that a coroutine awaits one by one. The first tick() starts the schedule.
/// The n-th tick is due n periods later, no matter how late a tick is returned and how long the
/// work between two of them takes. For a callback instead of a coroutine use gyre::timer.
///
/// Thread-safety: used by one coroutine at a time, with the clock of its executor's timers. A
/// coroutine that moves between executors needs executors with the same clock.
/// Lifetime: must outlive its ticks.
/// Errors: the constructor throws std::invalid_argument unless `period` > 0 and `first_delay` >= 0.
/// Complexity: a tick is one timer in the awaiter; no allocation.
class interval {
 public:
  /// The awaitable of tick(); awaited, it returns a steady_time.
  using tick_operation = detail::interval_tick;

  explicit interval(duration period, interval_options options = {});

  /// Awaited, suspends the coroutine until the next tick is due, and returns the time at which the
  /// tick was scheduled. A tick that is overdue is returned in the executor's next turn. Only one
  /// tick() may be awaited at a time.
  ///
  /// Lifetime: as sleep_for().
  /// Errors: throws gyre::operation_cancelled when asked to stop;
  /// std::errc::operation_not_supported if the executor has no timers. After a stop, or an expired
  /// with_timeout(), the next tick() returns the tick that was not returned.
  tick_operation tick() noexcept { return tick_operation(*this); }

  /// Starts a new schedule: the next tick() waits for one period. Must not be called while a tick
  /// is awaited.
  void reset() noexcept;
  /// Starts a new schedule, whose first tick is due at `first`; a time before the clock's epoch
  /// counts as the epoch. Must not be called while a tick is awaited.
  void reset_at(time_point first) noexcept { due_ = std::max<steady_time>(first, steady_time{}); }

  [[nodiscard]] std::chrono::nanoseconds period() const noexcept { return period_; }

 private:
  friend tick_operation;

  steady_time next_due(steady_time last_tick, const timer_service& timers,
                       bool is_late) const noexcept;

  std::chrono::nanoseconds period_;
  std::chrono::nanoseconds first_delay_;
  missed_ticks missed_policy_;
  std::optional<steady_time> due_;  // the time of the next tick; none before the schedule has begun
};

}  // namespace gyre

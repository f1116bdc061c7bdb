// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/interval.hpp>

#include <gyre/base/detail/duration_check.hpp>
#include <gyre/task/detail/require_timers.hpp>

#include <utility>

namespace gyre {

interval::interval(duration period, interval_options options)
    : period_(period), first_delay_(options.first_delay), missed_policy_(options.missed) {
  detail::require_positive(period, "gyre::interval: the period");
  detail::require_not_negative(options.first_delay, "gyre::interval: first_delay");
}

void interval::reset() noexcept {
  due_.reset();
  first_delay_ = period_;
}

// Returns the time of the tick that follows the one that was due at `previous`, which is being
// returned at the present time of `timers`.
steady_time interval::next_due(steady_time last_tick, const timer_service& timers,
                               bool is_late) const noexcept {
  const steady_time next_tick = detail::later(last_tick, period_);
  if (missed_policy_ == missed_ticks::burst) return next_tick;
  const steady_time current_time = timers.now();
  const bool is_next_due = current_time >= next_tick;
  if (missed_policy_ == missed_ticks::delay) {
    return is_late || is_next_due ? detail::later(current_time, period_) : next_tick;
  }
  if (!is_next_due) return next_tick;
  const auto periods = (current_time - last_tick) / period_;
  return detail::later(last_tick + periods * period_, period_);
}

namespace detail {

sleep_awaiter& interval_tick::begin(executor& target) noexcept {
  timers_ = target.timers();
  if (timers_ != nullptr) {
    if (!interval_->due_) {
      interval_->due_ = later(timers_->now(), interval_->first_delay_);
    } else if (interval_->missed_policy_ == missed_ticks::delay) {
      is_late_ = *interval_->due_ < timers_->now();
    }
    due_ = *interval_->due_;
  }
  return sleep_.emplace(due_);
}

std::expected<steady_time, std::error_code> interval_tick::result() {
  if (const auto result = sleep_->result(); !result) return std::unexpected(result.error());
  interval_->due_ = interval_->next_due(due_, *timers_, is_late_);
  return due_;
}

steady_time interval_tick::await_resume() {
  const auto tick = result();
  if (tick) [[likely]]
    return *tick;
  if (tick.error() != std::errc::operation_not_supported) throw std::system_error(tick.error());
  throw_no_timers("gyre::interval");
}

}  // namespace detail
}  // namespace gyre

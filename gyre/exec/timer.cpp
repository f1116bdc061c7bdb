// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/timer.hpp>

#include <gyre/base/detail/duration_check.hpp>

#include <cstdint>

namespace gyre {

void timer::start_at(time_point deadline) {
  period_ = std::chrono::nanoseconds{0};
  loop_.start_timer(node_, deadline);
}

void timer::start_every(duration period, time_point first) {
  detail::require_positive(period, "gyre::timer: the period");
  period_ = period;
  loop_.start_timer(node_, first);
}

bool timer::cancel() noexcept {
  period_ = std::chrono::nanoseconds{0};
  return loop_.cancel_timer(node_);
}

void timer::expire(timer_operation& operation) {
  timer& self = *static_cast<node&>(operation).self;
  if (self.period_ > std::chrono::nanoseconds{0}) {
    self.loop_.start_timer(self.node_, self.next_deadline());
  }
  self.callback_();  // the call may destroy the timer
}

// Returns the first deadline in the future that is a whole number of periods after the last
// deadline.
steady_time timer::next_deadline() const noexcept {
  const steady_time last_deadline = node_.deadline();
  const steady_time current_time = loop_.now();
  if (current_time < last_deadline) return detail::later(last_deadline, period_);
  // The difference is unsigned, because that of two points in time may exceed the longest duration.
  const auto count = [](std::chrono::nanoseconds duration) {
    return static_cast<std::uint64_t>(duration.count());
  };
  const std::uint64_t lateness =
      count(current_time.time_since_epoch()) - count(last_deadline.time_since_epoch());
  const std::chrono::nanoseconds into_period(lateness % count(period_));
  return detail::later(current_time, period_ - into_period);
}

}  // namespace gyre

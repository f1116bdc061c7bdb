// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/circuit_breaker.hpp>

#include <gyre/base/detail/duration_check.hpp>

#include <algorithm>
#include <stdexcept>

namespace gyre {

circuit_breaker::circuit_breaker(circuit_breaker_options options) : options_(options) {
  if (!(options.failure_rate > 0 && options.failure_rate <= 1)) {
    throw std::invalid_argument(
        "gyre::circuit_breaker: failure_rate must be more than 0, and at most 1");
  }
  if (options.min_calls == 0) {
    throw std::invalid_argument("gyre::circuit_breaker: min_calls must be at least 1");
  }
  if (options.window.count() < static_cast<std::int64_t>(steps)) {
    throw std::invalid_argument("gyre::circuit_breaker: window must be at least 10 ns");
  }
  detail::require_positive(options.open_time, "gyre::circuit_breaker: open_time");
}

std::optional<circuit_breaker::call> circuit_breaker::begin(time_point now) noexcept {
  if (state_ == circuit_state::open && now >= probe_time_) change_to(circuit_state::half_open);
  const bool is_allowed =
      state_ == circuit_state::closed || (state_ == circuit_state::half_open && !has_probe_);
  if (!is_allowed) {
    ++refused_calls_;
    return std::nullopt;
  }
  has_probe_ = state_ == circuit_state::half_open;
  ++running_calls_;
  return call(*this, epoch_);
}

bool circuit_breaker::is_unused(time_point now) const noexcept {
  const std::int64_t current_step = step_of(now);
  return state_ == circuit_state::closed && running_calls_ == 0 &&
         std::ranges::none_of(
             counts_, [&](const step_counts& step) { return is_in_window(step, current_step); });
}

std::int64_t circuit_breaker::step_of(steady_time now) const noexcept {
  return now.time_since_epoch().count() / (options_.window.count() / std::int64_t{steps});
}

bool circuit_breaker::is_in_window(const step_counts& step,
                                   std::int64_t current_step) const noexcept {
  return step.number >= 0 && step.number > current_step - static_cast<std::int64_t>(steps);
}

void circuit_breaker::record(bool has_failed, steady_time now) noexcept {
  const std::int64_t current_step = std::max<std::int64_t>(step_of(now), 0);
  step_counts& step = counts_[static_cast<std::size_t>(current_step) % steps];
  if (step.number != current_step) step = {.number = current_step};
  ++step.calls;
  if (has_failed) ++step.failures;
}

bool circuit_breaker::must_open(steady_time now) const noexcept {
  const std::int64_t current_step = step_of(now);
  std::uint64_t calls = 0, failures = 0;
  for (const step_counts& step : counts_) {
    if (!is_in_window(step, current_step)) continue;
    calls += step.calls;
    failures += step.failures;
  }
  return calls >= options_.min_calls &&
         static_cast<double>(failures) >= options_.failure_rate * static_cast<double>(calls);
}

void circuit_breaker::change_to(circuit_state new_state) noexcept {
  state_ = new_state;
  has_probe_ = false;
  counts_.fill({});
  ++epoch_;
}

void circuit_breaker::open(steady_time now) noexcept {
  change_to(circuit_state::open);
  probe_time_ = detail::later(now, options_.open_time);
  ++openings_;
}

void circuit_breaker::call::end(bool has_failed, steady_time now) noexcept {
  if (breaker_ == nullptr) return;
  circuit_breaker& breaker = *std::exchange(breaker_, nullptr);
  --breaker.running_calls_;
  if (breaker.epoch_ != epoch_) return;
  if (breaker.state_ == circuit_state::half_open) {
    has_failed ? breaker.open(now) : breaker.change_to(circuit_state::closed);
    return;
  }
  breaker.record(has_failed, now);
  if (has_failed && breaker.must_open(now)) breaker.open(now);
}

void circuit_breaker::call::abandon() noexcept {
  if (breaker_ == nullptr) return;
  circuit_breaker& breaker = *std::exchange(breaker_, nullptr);
  --breaker.running_calls_;
  if (breaker.epoch_ == epoch_) breaker.has_probe_ = false;
}

}  // namespace gyre

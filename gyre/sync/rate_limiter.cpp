// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/rate_limiter.hpp>

#include <gyre/base/detail/duration_check.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/require_timers.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/executor.hpp>

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

namespace gyre {
namespace {

// Returns `value`, which must be in the range in which sums and products of times fit in 128 bits.
std::uint64_t checked(std::uint64_t value, const char* name) {
  constexpr std::uint64_t max_value = std::uint64_t{1} << 62U;
  if (value > 0 && value <= max_value) return value;
  throw std::invalid_argument("gyre::rate_limiter: " + std::string(name) + " is " +
                              std::to_string(value) + "; it must be from 1 to 2^62");
}

// Returns `period` in nanoseconds, but at most half of the longest duration, 146 years, so that
// products of times fit in 128 bits.
std::uint64_t checked_period(duration period) {
  detail::require_positive(period, "gyre::rate_limiter: period");
  return static_cast<std::uint64_t>(
      std::min<std::chrono::nanoseconds>(period, duration::max() / 2).count());
}

}  // namespace

rate_limiter::rate_limiter(rate_limiter_options options)
    : rate_(checked(options.tokens, "tokens")),
      period_(checked_period(options.per)),
      burst_(checked(options.burst, "burst")),
      full_at_(to_scaled_time(steady_time::min())) {}

void rate_limiter::check(std::uint64_t tokens) const {
  if (tokens <= burst_) return;
  throw std::invalid_argument("gyre::rate_limiter: " + std::to_string(tokens) +
                              " tokens are more than the burst of " + std::to_string(burst_) +
                              " and would never be there at once");
}

bool rate_limiter::try_acquire(steady_time now, std::uint64_t tokens) {
  check(tokens);
  const mutex::guard head(line_, std::try_to_lock);
  if (!head || full_at_ - cost(burst_ - tokens) > to_scaled_time(now)) return false;
  take(tokens, now);
  return true;
}

rate_limiter::scaled_time rate_limiter::to_scaled_time(steady_time time) const noexcept {
  return scaled_time{time.time_since_epoch().count()} * static_cast<scaled_time>(rate_);
}

rate_limiter::scaled_time rate_limiter::cost(std::uint64_t tokens) const noexcept {
  return static_cast<scaled_time>(tokens) * static_cast<scaled_time>(period_);
}

// Returns the time, not before `now`, at which `tokens` tokens are available.
steady_time rate_limiter::ready_at(std::uint64_t tokens, steady_time now) const noexcept {
  const scaled_time ready_time = full_at_ - cost(burst_ - tokens);
  if (ready_time <= to_scaled_time(now)) return now;
  const auto rate = static_cast<scaled_time>(rate_);
  const scaled_time nanoseconds = ready_time / rate + (ready_time % rate > 0 ? 1 : 0);
  const scaled_time latest = steady_time::max().time_since_epoch().count();
  return steady_time(std::chrono::nanoseconds(
      static_cast<std::chrono::nanoseconds::rep>(std::min(nanoseconds, latest))));
}

// Takes tokens that are available at the time `now`.
void rate_limiter::take(std::uint64_t tokens, steady_time now) noexcept {
  full_at_ = std::max(full_at_, to_scaled_time(now)) + cost(tokens);
}

// Returns the result of `wait`, and keeps its error, if any, for await_resume(), which may throw.
template <class Wait>
auto rate_limiter::acquire_operation::result_of(Wait& wait) noexcept {
  const detail::stops_as_errors no_throw(frame_.context());
  auto result = wait.result();
  if (!result) error_ = static_cast<std::errc>(result.error().value());
  return result;
}

// begin(), reach_head() and take_tokens() return whether the coroutine waits; if it does, this
// object may be gone.
bool rate_limiter::acquire_operation::begin() noexcept {
  line_wait_.emplace(limiter_->line_.lock());
  if (!line_wait_->await_ready() && line_wait_->await_suspend(frame_.get_handle())) return true;
  return reach_head();
}

bool rate_limiter::acquire_operation::reach_head() noexcept {
  auto head = result_of(*line_wait_);
  if (!head) return false;
  head_ = *std::move(head);
  timer_service* const timers = frame_.context().where->timers();
  if (timers == nullptr) {
    error_ = std::errc::operation_not_supported;
    head_.unlock();
    return false;
  }
  const steady_time now = timers->now();
  const steady_time ready_time = limiter_->ready_at(tokens_, now);
  if (ready_time <= now) return take_tokens();
  token_wait_.emplace(ready_time);
  return token_wait_->await_suspend(frame_.get_handle()) || take_tokens();
}

bool rate_limiter::acquire_operation::take_tokens() noexcept {
  if (!token_wait_ || result_of(*token_wait_)) {
    limiter_->take(tokens_, frame_.context().where->timers()->now());
  }
  head_.unlock();
  return false;
}

GYRE_MAKES_TAIL_CALLS void rate_limiter::acquire_operation::resume_frame(void* frame) {
  acquire_operation& self = detail::stand_in<acquire_operation>::owner(frame);
  if (self.token_wait_ ? self.take_tokens() : self.reach_head()) return;
  GYRE_TAIL_CALL return detail::continue_with(self.coroutine_.address());
}

void rate_limiter::acquire_operation::destroy_frame(void* frame) noexcept {
  detail::stand_in<acquire_operation>::owner(frame).coroutine_.destroy();
}

std::expected<void, std::error_code> rate_limiter::acquire_operation::result() {
  if (error_ == std::errc{}) return {};
  return std::unexpected(detail::failure_value(std::make_error_code(error_), &frame_.context()));
}

void rate_limiter::acquire_operation::await_resume() {
  if (error_ == std::errc{}) [[likely]]
    return;
  if (error_ == std::errc::operation_not_supported) detail::throw_no_timers("gyre::rate_limiter");
  detail::throw_failure(std::make_error_code(error_), &frame_.context());
}

}  // namespace gyre

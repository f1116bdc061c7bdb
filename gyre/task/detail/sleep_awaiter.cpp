// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/sleep_awaiter.hpp>

#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/require_timers.hpp>
#include <gyre/task/executor.hpp>

namespace gyre::detail {

bool sleep_awaiter::wait(std::coroutine_handle<> coroutine, const task_context& context) noexcept {
  set_context(context);
  if (context.where->timers() == nullptr) error_ = std::errc::operation_not_supported;
  if (context.stop.stop_requested()) error_ = std::errc::operation_canceled;
  return error_ == std::errc{} && begin(*context.where, coroutine, context);
}

bool sleep_awaiter::start() noexcept {
  timer_service& timers = *event_executor().timers();
  if (!deadline_) {
    const bool has_elapsed = delay_ <= std::chrono::nanoseconds{0};
    deadline_ = has_elapsed ? steady_time::min() : later(timers.now(), delay_);
  }
  timers.start_timer(*this, *deadline_);
  return false;
}

bool sleep_awaiter::cancel() noexcept {
  error_ = std::errc::operation_canceled;
  return event_executor().timers()->cancel_timer(*this);
}

void sleep_awaiter::expire(timer_operation& self) {
  static_cast<sleep_awaiter&>(self).complete_event();
}

std::expected<void, std::error_code> sleep_awaiter::result() {
  end();
  if (error_ == std::errc{}) return {};
  return std::unexpected(failure_value(std::make_error_code(error_), context()));
}

void sleep_awaiter::await_resume() {
  end();
  if (error_ == std::errc::operation_not_supported) throw_no_timers("gyre::sleep_for");
  if (error_ != std::errc{}) throw_failure(std::make_error_code(error_), context());
}

}  // namespace gyre::detail

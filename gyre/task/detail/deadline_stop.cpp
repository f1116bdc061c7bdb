// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/deadline_stop.hpp>

#include <gyre/base/clock.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/require_timers.hpp>
#include <gyre/task/detail/task_state.hpp>
#include <gyre/task/time_limit_error.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <new>
#include <string>
#include <utility>

namespace gyre::detail {
namespace {

// Formats `length` for a message, such as "2 s", "1.5 s" or "250 ms".
std::string in_words(std::chrono::nanoseconds length) {
  struct unit {
    std::int64_t nanoseconds;
    const char* name;
  };
  constexpr std::array<unit, 4> units{
      {{1'000'000'000, " s"}, {1'000'000, " ms"}, {1'000, " us"}, {1, " ns"}}};
  const std::int64_t count = std::max<std::int64_t>(length.count(), 0);
  const unit& largest_unit =
      count == 0 ? units.front() : *std::ranges::find_if(units, [&](const unit& candidate) {
        return candidate.nanoseconds <= count;
      });
  std::string words = std::to_string(count / largest_unit.nanoseconds);
  // The fraction is cut to thousandths, without zeros at its end.
  const std::int64_t thousandths =
      largest_unit.nanoseconds == 1
          ? 0
          : count % largest_unit.nanoseconds / (largest_unit.nanoseconds / 1000);
  if (thousandths != 0) {
    words += '.' + std::to_string(1000 + thousandths).substr(1);
    words.erase(words.find_last_not_of('0') + 1);
  }
  return words + largest_unit.name;
}

}  // namespace

void throw_time_limit_expired(std::chrono::nanoseconds limit) {
  throw std::system_error(make_error_code(time_limit_errc::expired),
                          "gyre::with_timeout of " + in_words(limit));
}

void deadline_stop::check_not_awaited() const {
  if (coroutine_) throw_empty_task();
}

std::coroutine_handle<> deadline_stop::begin() noexcept {
  task_executor_ = context().where;
  timers_ = task_executor_->timers();
  if (timers_ == nullptr) return coroutine_;
  if (task_executor_->running_here()) return start();
  task_executor_->post(*this);
  return std::noop_coroutine();
}

std::coroutine_handle<> deadline_stop::start() noexcept {
  replaced_stop_.emplace(context(), source_.emplace(context().stop).get_token());
  context().has_taken_cancellation = false;
  is_working_ = true;
  timers_->start_time_limit(*this, limit_);
  if (const std::coroutine_handle<> coroutine = start_work(frame_.get_handle())) return coroutine;
  return finish_work() ? coroutine_ : std::noop_coroutine();
}

// Called when the work has ended, on any thread. Returns true if the caller must resume the
// coroutine; otherwise this object may have been destroyed.
bool deadline_stop::finish_work() noexcept {
  context().where = task_executor_;
  // For backtraces the innermost coroutine is again the awaiting one: the work has recorded the
  // stand-in, which it took for its awaiting coroutine.
  context().trace.innermost.set(traced_awaiting_.get());
  has_work_ended_ = true;
  if (task_executor_->running_here()) return cancel_timer();
  task_executor_->post(*this);
  return false;
}

bool deadline_stop::cancel_timer() noexcept {
  is_working_ = false;
  return timers_->cancel_timer(*this) || core_.leave(work_end);
}

void deadline_stop::on_expiry(timer_operation& timer) {
  auto& self = static_cast<deadline_stop&>(timer);
  self.limit_came_first_ = self.source_->request_stop();
  if (!self.core_.leave(expiry)) return;
  // The timers of a strand expire outside of the strand, which the coroutine must not leave.
  self.task_executor_->running_here() ? resume(self.coroutine_) : self.task_executor_->post(self);
}

// Runs on the executor for one of three reasons: the work must be started, the work has ended on
// another executor, or the timer has expired on another thread and the coroutine waited for that.
void deadline_stop::run(operation& op) {
  auto& self = static_cast<deadline_stop&>(op);
  if (!self.has_work_ended_) return resume(self.start());
  if (!self.is_working_ || self.cancel_timer()) resume(self.coroutine_);
}

GYRE_MAKES_TAIL_CALLS void deadline_stop::resume_frame(void* frame) {
  deadline_stop& self = stand_in<deadline_stop>::owner(frame);
  if (!self.finish_work()) return;
  GYRE_TAIL_CALL return continue_with(self.coroutine_.address());
}

void deadline_stop::destroy_frame(void* frame) noexcept {
  stand_in<deadline_stop>::owner(frame).coroutine_.destroy();
}

void deadline_stop::abandon() noexcept {
  replaced_stop_.reset();
  timers_->cancel_timer(*this);
}

void deadline_stop::throw_no_timers() { detail::throw_no_timers("gyre::with_timeout"); }

bool deadline_stop::ended_by_limit() const noexcept {
  return limit_came_first_ && !context().has_taken_cancellation;
}

void deadline_stop::throw_error_of_work(std::exception_ptr error) const {
  if (ended_by_limit() && is_cancelled(error)) throw_time_limit_expired(limit_);
  if (error == cancellation()) error = cancellation_in(context());
  std::rethrow_exception(std::move(error));
}

void deadline_stop::throw_error_of_work(std::error_code error) const {
  const std::error_code passed_on = error_of_work(error);
  if (passed_on == time_limit_errc::expired && passed_on != error) throw_time_limit_expired(limit_);
  throw std::system_error(passed_on);
}

std::error_code deadline_stop::value_of_error(std::exception_ptr error) const {
  if (ended_by_limit() && is_cancelled(error)) return make_error_code(time_limit_errc::expired);
  if (error == cancellation() && !context().stop.stop_requested())
    return std::make_error_code(std::errc::operation_canceled);
  try {
    std::rethrow_exception(std::move(error));
  } catch (const std::system_error& failure) {
    return failure.code();
  } catch (const std::bad_alloc&) {
    return std::make_error_code(std::errc::not_enough_memory);
  }
}

std::error_code deadline_stop::error_of_work(std::error_code error) const {
  if (error != std::errc::operation_canceled) return error;
  if (ended_by_limit()) return make_error_code(time_limit_errc::expired);
  return failure_value(error, &context());
}

}  // namespace gyre::detail

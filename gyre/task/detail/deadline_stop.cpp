// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/deadline_stop.hpp>

#include <gyre/base/clock.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/needed_timers.hpp>
#include <gyre/task/detail/task_state.hpp>

#include <new>
#include <utility>

namespace gyre::detail {

void deadline_stop::check_not_awaited() const {
  if (awaiting_) throw_empty_task();
}

std::coroutine_handle<> deadline_stop::begin() noexcept {
  home_ = context().where;
  timers_ = home_->timers();
  if (timers_ == nullptr) return awaiting_;
  if (home_->running_here()) return start();
  home_->post(*this);
  return std::noop_coroutine();
}

std::coroutine_handle<> deadline_stop::start() noexcept {
  replaced_stop_.emplace(context(), source_.emplace(context().stop).get_token());
  works_ = true;
  const bool at_once = limit_ <= std::chrono::nanoseconds{0};
  timers_->start_timer(*this, at_once ? steady_time::min() : later(timers_->now(), limit_));
  if (const std::coroutine_handle<> next = start_work(frame_.get_handle())) return next;
  return finish_work() ? awaiting_ : std::noop_coroutine();
}

// The work has ended, on any thread. True if the coroutine is to be resumed here; if not, this may
// be gone.
bool deadline_stop::finish_work() noexcept {
  replaced_stop_.reset();
  context().where = home_;
#if GYRE_ASYNC_BACKTRACE
  context().innermost = promise_;  // the work took the stand-in for the coroutine
#endif
  has_worked_ = true;
  if (home_->running_here()) return cancel_timer();
  home_->post(*this);
  return false;
}

bool deadline_stop::cancel_timer() noexcept {
  works_ = false;
  // release: pairs with the acquire in on_expiry(), which resumes; acquire: pairs with the release
  // there, after which this may be destroyed.
  return timers_->cancel_timer(*this) ||
         state_.exchange(state::awaited, std::memory_order_acq_rel) == state::expired;
}

void deadline_stop::on_expiry(timer_operation& expired) {
  auto& self = static_cast<deadline_stop&>(expired);
  self.was_first_ = self.source_->request_stop();
  if (self.state_.exchange(state::expired, std::memory_order_acq_rel) != state::awaited) return;
  // A strand's timers expire outside of it.
  self.home_->running_here() ? resume(self.awaiting_) : self.home_->post(self);
}

// On the executor: the work is to be started, or has ended elsewhere, or the timer has expired
// elsewhere and the coroutine waited for that.
void deadline_stop::run(operation& posted) {
  auto& self = static_cast<deadline_stop&>(posted);
  if (!self.has_worked_) return resume(self.start());
  if (!self.works_ || self.cancel_timer()) resume(self.awaiting_);
}

GYRE_MAKES_TAIL_CALLS void deadline_stop::resume_frame(void* resumed) {
  deadline_stop& self = stand_in<deadline_stop>::owner(resumed);
  if (!self.finish_work()) return;
  GYRE_TAIL_CALL return continue_with(self.awaiting_.address());
}

void deadline_stop::destroy_frame(void* destroyed) noexcept {
  stand_in<deadline_stop>::owner(destroyed).awaiting_.destroy();
}

void deadline_stop::abandon() noexcept {
  replaced_stop_.reset();
  timers_->cancel_timer(*this);
}

void deadline_stop::throw_no_timers() { detail::throw_no_timers("gyre::with_timeout"); }

void deadline_stop::throw_error_of_work(std::exception_ptr error) const {
  if (was_first_ && is_cancelled(error)) throw_error(std::errc::timed_out);
  if (error == cancellation()) error = cancellation_in(context());
  std::rethrow_exception(std::move(error));
}

void deadline_stop::throw_error_of_work(std::error_code error) const {
  throw std::system_error(error_of_work(error));
}

std::error_code deadline_stop::value_of_error(std::exception_ptr error) const {
  if (was_first_ && is_cancelled(error)) return std::make_error_code(std::errc::timed_out);
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
  if (was_first_) return std::make_error_code(std::errc::timed_out);
  return failure_value(error, &context());
}

}  // namespace gyre::detail

// SPDX-License-Identifier: Apache-2.0
//
// The awaiter may be touched by the thread that starts the timer, the one where it expires and the
// one that runs the cancelling operation. On a loop that is one thread; on executors with several
// they meet. Each leaves when it has touched the awaiter for the last time, and the last to leave
// resumes the coroutine: nobody finds the awaiter gone.
#include <gyre/task/sleep.hpp>

#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/transfer.hpp>

#include <cassert>

namespace gyre::detail {

sleep_awaiter::~sleep_awaiter() {
  // relaxed: on the executor's thread, or never awaited.
  if (parties_.load(std::memory_order_relaxed) == 0) return;
  callback_.reset();
  assert((parties_.load(std::memory_order_relaxed) & (starting | cancelling)) == 0 &&
         "a sleep was destroyed that was about to start or to be cancelled");
  timers_->cancel_timer(*this);
}

// False: go on at once.
bool sleep_awaiter::wait(const task_context& context) noexcept {
  where_ = context.where;
  timers_ = where_->timers();
  context_ = &context;
  if (timers_ == nullptr) error_ = std::errc::operation_not_supported;
  if (context.stop.stop_requested()) error_ = std::errc::operation_canceled;
  if (error_ != std::errc{}) return false;
  // relaxed: not shared yet.
  parties_.store(starting | timer, std::memory_order_relaxed);
  if (where_->running_here()) return !start();
  where_->post(*this);
  return true;
}

// Whether it is over.
bool sleep_awaiter::start() noexcept {
  started_ = true;
  if (!deadline_) {
    const bool none = delay_ <= std::chrono::nanoseconds{0};
    deadline_ = none ? steady_time::min() : later(timers_->now(), delay_);
  }
  timers_->start_timer(*this, *deadline_);
  if (context_->stop.stop_possible()) callback_.emplace(context_->stop, on_stop{this});
  return last_of(starting);
}

// Any thread.
void sleep_awaiter::stop() noexcept {
  // acq_rel: the release is for cancel(), through the executor as well; the acquire pairs with the
  // release in last_of(), of one who left before.
  std::uint8_t seen = parties_.load(std::memory_order_acquire);
  do {
    if ((seen & timer) == 0) return;
  } while (!parties_.compare_exchange_weak(seen, static_cast<std::uint8_t>(seen | cancelling),
                                           std::memory_order_acq_rel, std::memory_order_acquire));
  where_->post(*this);
}

void sleep_awaiter::cancel() noexcept {
  error_ = std::errc::operation_canceled;
  const bool in_time = timers_->cancel_timer(*this);
  if (last_of(in_time ? cancelling | timer : cancelling)) resume(waiting_);
}

bool sleep_awaiter::last_of(unsigned leaving) noexcept {
  // release: pairs with the acquire of the last, who sees what the others did.
  const auto staying = static_cast<std::uint8_t>(~leaving);
  return (parties_.fetch_and(staying, std::memory_order_acq_rel) & staying) == 0;
}

void sleep_awaiter::run(operation& posted) {
  auto& self = static_cast<sleep_awaiter&>(posted);
  if (self.started_) {
    self.cancel();
  } else if (self.start()) {
    resume(self.waiting_);
  }
}

void sleep_awaiter::on_expiry(timer_operation& expired) {
  auto& self = static_cast<sleep_awaiter&>(expired);
  if (self.last_of(timer)) resume(self.waiting_);
}

std::expected<void, std::error_code> sleep_awaiter::result() {
  callback_.reset();
  if (error_ == std::errc{}) return {};
  return std::unexpected(failure_value(std::make_error_code(error_), context_));
}

void sleep_awaiter::await_resume() {
  callback_.reset();
  if (error_ == std::errc::operation_not_supported) {
    throw std::system_error(std::make_error_code(error_),
                            "gyre::sleep_for: no timers here: use sync_wait(loop, ...)");
  }
  if (error_ != std::errc{}) throw_failure(std::make_error_code(error_), context_);
}

}  // namespace gyre::detail

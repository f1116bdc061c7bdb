// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/deadline_stop.hpp>

#include <gyre/base/clock.hpp>
#include <gyre/task/detail/transfer.hpp>

#include <system_error>

namespace gyre::detail {

bool deadline_stop::post_unless_home(std::coroutine_handle<> awaiting) noexcept {
  if (home_->running_here()) return false;
  waiting = awaiting;
  home_->post(*this);
  return true;
}

void deadline_stop::start() {
  timers_ = home_->timers();
  if (timers_ == nullptr) {
    throw std::system_error(std::make_error_code(std::errc::operation_not_supported),
                            "gyre::with_timeout: no timers here: use sync_wait(loop, ...)");
  }
  const bool at_once = limit_ <= std::chrono::nanoseconds{0};
  timers_->start_timer(*this, at_once ? steady_time::min() : later(timers_->now(), limit_));
}

// The coroutine and the expiry, maybe on different threads of the executor, meet: the second of the
// two resumes the coroutine.
bool deadline_stop::wait_for_expiry(std::coroutine_handle<> awaiting) noexcept {
  waiting = awaiting;
  // release: pairs with the acquire in on_expiry(), which resumes; acquire: pairs with the release
  // there, after which this may be destroyed.
  return state_.exchange(state::awaited, std::memory_order_acq_rel) != state::expired;
}

void deadline_stop::on_expiry(timer_operation& expired) {
  auto& self = static_cast<deadline_stop&>(expired);
  self.was_first_ = self.source_.request_stop();
  if (self.state_.exchange(state::expired, std::memory_order_acq_rel) == state::awaited) {
    resume(self.waiting);
  }
}

}  // namespace gyre::detail

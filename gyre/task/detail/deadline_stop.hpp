// SPDX-License-Identifier: Apache-2.0
// deadline_stop: a stop request when a time limit expires.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>

#include <chrono>
#include <coroutine>
#include <cstdint>
#include <system_error>

namespace gyre::detail {

/// Requests a stop of `source` after `limit`, by a timer of the executor on which the coroutine
/// adopts it. A local of that coroutine, which awaits adopt(), calls start(), and in the end awaits
/// return_to_executor() and cancel().
///
/// Lifetime: may be destroyed in between on the thread of an executor that has one.
class deadline_stop : resumption, timer_operation {
 public:
  deadline_stop(inplace_stop_source& source, std::chrono::nanoseconds limit) noexcept
      : timer_operation(&on_expiry), source_(source), limit_(limit) {}
  ~deadline_stop() {
    if (timers_ != nullptr) timers_->cancel_timer(*this);
  }

  auto adopt() noexcept {
    return suspension([this](auto awaiting) noexcept {
      home_ = context_of(awaiting).where;
      return post_unless_home(awaiting);
    });
  }
  /// Throws std::system_error where the executor has no timers.
  void start() {
    timers_ = home_->timers();
    if (timers_ == nullptr) {
      throw std::system_error(std::make_error_code(std::errc::operation_not_supported),
                              "gyre::with_timeout: no timers here: use sync_wait(loop, ...)");
    }
    const bool at_once = limit_ <= std::chrono::nanoseconds{0};
    timers_->start_timer(*this, at_once ? steady_time::min() : later(timers_->now(), limit_));
  }
  auto return_to_executor() noexcept {
    return suspension([this](auto awaiting) noexcept {
      context_of(awaiting).where = home_;
      return post_unless_home(awaiting);
    });
  }
  /// Awaited on that executor; afterwards the timer neither expires nor is expiring.
  auto cancel() noexcept {
    return suspension([this](auto awaiting) noexcept {
      return !timers_->cancel_timer(*this) && wait_for_expiry(awaiting);
    });
  }
  /// Whether the limit was the reason to stop. After cancel().
  bool was_first() const noexcept { return was_first_; }

 private:
  enum class state : std::uint8_t { started, expired, awaited };

  bool post_unless_home(std::coroutine_handle<> awaiting) noexcept {
    if (home_->running_here()) return false;
    waiting = awaiting;
    home_->post(*this);
    return true;
  }
  // The coroutine and the expiry may be on different threads: the second resumes the coroutine.
  bool wait_for_expiry(std::coroutine_handle<> awaiting) noexcept {
    waiting = awaiting;
    // release: pairs with the acquire in on_expiry(), which resumes; acquire: pairs with the
    // release there, after which this may be destroyed.
    return state_.exchange(state::awaited, std::memory_order_acq_rel) != state::expired;
  }
  static void on_expiry(timer_operation& expired) {
    auto& self = static_cast<deadline_stop&>(expired);
    self.was_first_ = self.source_.request_stop();
    if (self.state_.exchange(state::expired, std::memory_order_acq_rel) == state::awaited) {
      resume(self.waiting);
    }
  }

  inplace_stop_source& source_;
  const std::chrono::nanoseconds limit_;
  executor* home_ = nullptr;
  timer_service* timers_ = nullptr;
  bool was_first_ = false;
  atomic<state> state_{state::started};
};

}  // namespace gyre::detail

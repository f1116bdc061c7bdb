// SPDX-License-Identifier: Apache-2.0
// deadline_stop: a stop request when a time limit expires.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>

#include <chrono>
#include <coroutine>
#include <cstdint>

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
  void start();
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

  bool post_unless_home(std::coroutine_handle<> awaiting) noexcept;
  bool wait_for_expiry(std::coroutine_handle<> awaiting) noexcept;
  static void on_expiry(timer_operation& expired);

  inplace_stop_source& source_;
  const std::chrono::nanoseconds limit_;
  executor* home_ = nullptr;
  timer_service* timers_ = nullptr;
  bool was_first_ = false;
  atomic<state> state_{state::started};
};

}  // namespace gyre::detail

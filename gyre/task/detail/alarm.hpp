// SPDX-License-Identifier: Apache-2.0
// A stop request that comes when a coroutine has taken too long.
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

/// Requests a stop after some time, on the executor where the coroutine was when it set it. A
/// local of that coroutine, which awaits set(), then go_home() and off() when it is done. May be
/// destroyed in between on the thread of an executor that has one.
class alarm : resumption, timer_operation {
 public:
  alarm(inplace_stop_source& rings, std::chrono::nanoseconds delay) noexcept
      : timer_operation(&on_expiry), rings_(rings), delay_(delay) {}
  alarm(const alarm&) = delete;
  ~alarm() {
    if (timers_ != nullptr) timers_->cancel_timer(*this);
  }

  /// Awaited, starts. Throws std::system_error where the executor has no timers.
  auto set() noexcept { return set_awaiter(*this); }
  /// Awaited, goes to the executor that the alarm belongs to.
  auto go_home() noexcept { return home_awaiter(*this); }
  /// Awaited there: it does not ring any more. Tells whether it was the reason to stop.
  auto off() noexcept { return off_awaiter(*this); }

 private:
  enum class state : std::uint8_t { set, rung, awaited };

  struct set_awaiter {
    explicit set_awaiter(alarm& a) noexcept : self(a) {}
    static constexpr bool executor_affine = true;
    static constexpr bool await_ready() noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> awaiting) noexcept {
      self.home_ = context_of(awaiting).where;
      return self.must_go_home(awaiting);
    }
    void await_resume() const { self.start(); }
    alarm& self;
  };
  struct home_awaiter {
    explicit home_awaiter(alarm& a) noexcept : self(a) {}
    static constexpr bool executor_affine = true;
    static constexpr bool await_ready() noexcept { return false; }
    template <has_context Promise>
    bool await_suspend(std::coroutine_handle<Promise> awaiting) noexcept {
      context_of(awaiting).where = self.home_;
      return self.must_go_home(awaiting);
    }
    static constexpr void await_resume() noexcept {}
    alarm& self;
  };
  struct off_awaiter {
    explicit off_awaiter(alarm& a) noexcept : self(a) {}
    static constexpr bool executor_affine = true;
    bool await_ready() const noexcept { return self.timers_->cancel_timer(self); }
    bool await_suspend(std::coroutine_handle<> awaiting) const noexcept {
      return self.is_ringing(awaiting);
    }
    bool await_resume() const noexcept { return self.was_first_; }
    alarm& self;
  };

  bool must_go_home(std::coroutine_handle<> awaiting) noexcept;
  void start();
  bool is_ringing(std::coroutine_handle<> awaiting) noexcept;
  static void on_expiry(timer_operation& expired);

  inplace_stop_source& rings_;
  const std::chrono::nanoseconds delay_;
  executor* home_ = nullptr;
  timer_service* timers_ = nullptr;
  bool was_first_ = false;
  atomic<state> state_{state::set};
};

}  // namespace gyre::detail

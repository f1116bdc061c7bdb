// SPDX-License-Identifier: Apache-2.0
// Waiting for time to pass.
//
//     co_await gyre::sleep_for(250ms);
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>

#include <chrono>
#include <coroutine>
#include <cstdint>
#include <expected>
#include <optional>
#include <system_error>

namespace gyre {

namespace detail {

/// Waits for a timer of the executor. Timers belong to the executor's threads; so a stop, which
/// comes from any thread, posts an operation there that cancels it.
class sleep_awaiter : operation, timer_operation {
 public:
  explicit sleep_awaiter(std::chrono::nanoseconds delay) noexcept
      : operation(&run), timer_operation(&on_expiry), delay_(delay) {}
  explicit sleep_awaiter(steady_time deadline) noexcept
      : operation(&run), timer_operation(&on_expiry), deadline_(deadline) {}
  // Before it is awaited.
  sleep_awaiter(const sleep_awaiter& other) noexcept
      : operation(&run),
        timer_operation(&on_expiry),
        delay_(other.delay_),
        deadline_(other.deadline_) {}
  sleep_awaiter& operator=(const sleep_awaiter&) = delete;
  /// On a thread of the executor, if it waits.
  ~sleep_awaiter();

  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> awaiting) noexcept {
    waiting_ = awaiting;
    const task_context& context = context_of(awaiting);
    return wait(context) || gives_way(context, awaiting);
  }
  void await_resume();
  std::expected<void, std::error_code> result();

 private:
  struct on_stop {
    sleep_awaiter* self;
    void operator()() const noexcept { self->stop(); }
  };
  // Who is still to touch the awaiter; the last of them resumes the coroutine.
  enum party : std::uint8_t { starting = 1, timer = 2, cancelling = 4 };

  bool wait(const task_context& context) noexcept;
  bool start() noexcept;
  void stop() noexcept;
  void cancel() noexcept;
  bool last_of(unsigned leaving) noexcept;
  static void run(operation& posted);
  static void on_expiry(timer_operation& expired);

  std::chrono::nanoseconds delay_{};
  std::optional<steady_time> deadline_;  // null: after delay_
  std::coroutine_handle<> waiting_;
  executor* where_ = nullptr;
  timer_service* timers_ = nullptr;
  const task_context* context_ = nullptr;
  std::optional<inplace_stop_callback<on_stop>> callback_;
  atomic<std::uint8_t> parties_{0};
  bool started_ = false;
  std::errc error_{};
};

}  // namespace detail

/// Awaited, goes on when `delay` has passed, not earlier; a delay of zero or less is over in the
/// executor's next turn. Uses the timers of the coroutine's executor, and goes on there.
///
/// Errors: operation_cancelled when asked to stop, at once and from any thread;
/// std::errc::operation_not_supported where the executor has no timers. Allocates nothing. May be
/// destroyed while it waits, on the thread of an executor that has one, unless a stop was
/// requested: then its end is under way, as it may be at any time on an executor of several
/// threads.
[[nodiscard]] inline auto sleep_for(std::chrono::nanoseconds delay) noexcept {
  return detail::sleep_awaiter(delay);
}

/// The same for a point in time, as told by the executor's timers. One that has passed is over in
/// the executor's next turn.
[[nodiscard]] inline auto sleep_until(steady_time deadline) noexcept {
  return detail::sleep_awaiter(deadline);
}

}  // namespace gyre

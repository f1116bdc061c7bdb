// SPDX-License-Identifier: Apache-2.0
// sleep_awaiter: the awaiter of sleep_for() and sleep_until().
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/stoppable_wait.hpp>

#include <chrono>
#include <coroutine>
#include <expected>
#include <optional>
#include <system_error>

namespace gyre::detail {

/// An awaiter that waits for a timer of the coroutine's executor.
class sleep_awaiter final : stoppable_wait, timer_operation {
 public:
  explicit sleep_awaiter(duration delay) noexcept : timer_operation(&expire), delay_(delay) {}
  explicit sleep_awaiter(time_point deadline) noexcept
      : timer_operation(&expire), deadline_(deadline) {}
  // An awaiter is copied only before it is awaited.
  sleep_awaiter(const sleep_awaiter& other) noexcept
      : stoppable_wait(),
        timer_operation(&expire),
        delay_(other.delay_),
        deadline_(other.deadline_) {}
  sleep_awaiter& operator=(const sleep_awaiter&) = delete;
  ~sleep_awaiter() {
    if (abandon()) [[unlikely]]
      cancel();
  }

  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) noexcept {
    const task_context& context = context_of(coroutine);
    return wait(coroutine, context) || gives_way(context, coroutine);
  }
  void await_resume();
  std::expected<void, std::error_code> result();

 private:
  bool wait(std::coroutine_handle<> coroutine, const task_context& context) noexcept;
  bool start() noexcept override;
  bool cancel() noexcept override;
  static void expire(timer_operation& self);

  std::chrono::nanoseconds delay_{};
  // Null until start() has added delay_ to the time of the executor's timers.
  std::optional<steady_time> deadline_;
  std::errc error_{};
};

}  // namespace gyre::detail

// SPDX-License-Identifier: Apache-2.0
// deadline_stop: asks the work that a coroutine awaits to stop when a time limit expires.
#pragma once

#include <gyre/base/operation.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/stand_in.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/detail/transfer.hpp>
#include <gyre/task/detail/wait_core.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>

#include <chrono>
#include <concepts>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <optional>
#include <system_error>

namespace gyre::detail {

/// Throws std::system_error: time_limit_errc::expired, with `limit` in its message.
[[noreturn, gnu::cold]] void throw_time_limit_expired(std::chrono::nanoseconds limit);

/// Base of an awaiter of work with a time limit: a stop source, a timer of the coroutine's executor
/// that requests its stop, and a stand-in for the coroutine, which the work resumes at its end.
///
/// The work runs in the context of the coroutine, whose stop token is replaced meanwhile. The
/// stand-in puts the token back and, if the work has moved the coroutine, returns to the executor.
/// There it cancels the timer. If that is too late, the coroutine and the expiry may be on
/// different threads: the second of them resumes the coroutine (see wait_core).
class deadline_stop : operation, timer_operation {
 public:
  using stand_in_handle = stand_in<deadline_stop>::handle;

  deadline_stop& operator=(const deadline_stop&) = delete;

 protected:
  explicit deadline_stop(std::chrono::nanoseconds limit) noexcept
      : operation(&run), timer_operation(&on_expiry), limit_(limit) {}
  /// Copies an awaiter that has not been awaited.
  deadline_stop(const deadline_stop& other) noexcept : deadline_stop(other.limit_) {}
  /// Runs after the destructor of the derived class has destroyed the work.
  ~deadline_stop() {
    if (is_working_) [[unlikely]]
      abandon();
  }

  /// Starts the work, whose end resumes `stand_in`. Returns the coroutine to be resumed, or null if
  /// the work has ended already. On a thread of the executor.
  virtual std::coroutine_handle<> start_work(stand_in_handle stand_in) noexcept = 0;

  /// For await_suspend(): returns the coroutine to be resumed. Throws std::logic_error the second
  /// time.
  template <has_context Promise>
  std::coroutine_handle<> begin(std::coroutine_handle<Promise> coroutine) {
    check_not_awaited();
    coroutine_ = coroutine;
    frame_.stand_for(coroutine, *this);
    traced_awaiting_.set(promise_of(coroutine));
    return begin();
  }

  // The members from here on are for await_resume().
  task_context& context() const noexcept { return frame_.context(); }
  /// Whether the work has run; there were no timers otherwise.
  bool has_run() const noexcept { return timers_ != nullptr; }
  /// Throws std::errc::operation_not_supported if not.
  void check_has_run() const {
    if (!has_run()) [[unlikely]]
      throw_no_timers();
  }
  static std::error_code no_timers() noexcept {
    return std::make_error_code(std::errc::operation_not_supported);
  }
  /// Whether the limit was the reason to stop.
  bool limit_came_first() const noexcept { return limit_came_first_; }

  /// Throws the error of the coroutine whose work ended with `error`: time_limit_errc::expired, and
  /// the limit, if that ended the work.
  [[noreturn, gnu::cold]] void throw_error_of_work(std::exception_ptr error) const;
  [[noreturn, gnu::cold]] void throw_error_of_work(std::error_code error) const;
  /// As throw_error_of_work(), but returns errors that as_expected() gives as values.
  [[gnu::cold]] std::error_code value_of_error(std::exception_ptr error) const;
  [[gnu::cold]] std::error_code error_of_work(std::error_code error) const;

 private:
  static constexpr wait_core::parties work_end = 1;
  static constexpr wait_core::parties expiry = 2;

  void check_not_awaited() const;
  bool ended_by_limit() const noexcept;
  std::coroutine_handle<> begin() noexcept;
  std::coroutine_handle<> start() noexcept;
  bool finish_work() noexcept;
  bool cancel_timer() noexcept;
  void abandon() noexcept;
  [[noreturn, gnu::cold]] static void throw_no_timers();
  static void run(operation& op);
  static void on_expiry(timer_operation& timer);
  static void resume_frame(void* frame);
  static void destroy_frame(void* frame) noexcept;

  const std::chrono::nanoseconds limit_;
  std::coroutine_handle<> coroutine_;
  [[no_unique_address]] traced<promise_base*> traced_awaiting_;
  stand_in<deadline_stop> frame_{&resume_frame, &destroy_frame};
  executor* home_ = nullptr;
  timer_service* timers_ = nullptr;
  std::optional<linked_stop_source> source_;
  std::optional<stopped_by> replaced_stop_;  // until the work has ended
  bool is_working_ = false;                  // the work runs, or was destroyed while it ran
  bool work_has_ended_ = false;
  bool limit_came_first_ = false;
  wait_core core_{work_end | expiry};
};

}  // namespace gyre::detail

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

/// Throws std::system_error (time_limit_errc::expired), with `limit` in its message.
[[noreturn, gnu::cold]] void throw_time_limit_expired(std::chrono::nanoseconds limit);

/// Base of an awaiter of work with a time limit. It holds a stop source, a timer of the coroutine's
/// executor that requests the stop, and a stand-in for the coroutine, which the work resumes when
/// it ends.
///
/// The work runs in the context of the coroutine, whose stop token is replaced until the coroutine
/// has taken the result. When the work ends, the stand-in, if the work has moved the coroutine to
/// another executor, returns to the first one. There it cancels the timer. If the timer is already
/// expiring, the coroutine and the expiry may be on different threads: the second of them resumes
/// the coroutine (see wait_core).
class deadline_stop : operation, timer_operation {
 public:
  using stand_in_handle = stand_in<deadline_stop>::handle;

  deadline_stop& operator=(const deadline_stop&) = delete;

 protected:
  explicit deadline_stop(std::chrono::nanoseconds limit) noexcept
      : operation(&run), timer_operation(&on_expiry), limit_(limit) {}
  /// Requires that `other` was not awaited.
  deadline_stop(const deadline_stop& other) noexcept : deadline_stop(other.limit_) {}
  /// Cancels the timer if the work has not ended. Called after the destructor of the derived class
  /// has destroyed the work.
  ~deadline_stop() {
    if (is_working_) [[unlikely]]
      abandon();
  }

  /// Starts the work, which resumes `stand_in` when it ends. Returns the coroutine to be resumed,
  /// or null if the work has ended already. Called on a thread of the executor.
  virtual std::coroutine_handle<> start_work(stand_in_handle stand_in) noexcept = 0;

  /// Begins the wait, in await_suspend(), and returns the coroutine to be resumed. Throws
  /// std::logic_error if the awaiter was awaited before.
  template <has_context Promise>
  std::coroutine_handle<> begin(std::coroutine_handle<Promise> coroutine) {
    check_not_awaited();
    coroutine_ = coroutine;
    frame_.make_stand_in(coroutine, *this);
    traced_awaiting_.set(promise_of(coroutine));
    return begin();
  }

  // The following members are for await_resume().

  /// Restores the stop token of the context when it is destroyed: after the result was taken.
  class stop_restorer {
   public:
    explicit stop_restorer(deadline_stop& owner) noexcept : owner_(owner) {}
    stop_restorer& operator=(stop_restorer&&) = delete;
    ~stop_restorer() { owner_.replaced_stop_.reset(); }

   private:
    deadline_stop& owner_;
  };
  task_context& context() const noexcept { return frame_.context(); }
  /// Returns whether the work has run; otherwise the executor has no timers.
  bool has_run() const noexcept { return timers_ != nullptr; }
  /// Throws std::system_error (std::errc::operation_not_supported) unless has_run().
  void check_has_run() const {
    if (!has_run()) [[unlikely]]
      throw_no_timers();
  }
  static std::error_code no_timers() noexcept {
    return std::make_error_code(std::errc::operation_not_supported);
  }
  /// Returns whether the limit requested the stop before any other source did.
  bool limit_came_first() const noexcept { return limit_came_first_; }

  /// Throws the error of a coroutine whose work ended with `error`: time_limit_errc::expired, with
  /// the limit in its message, if the limit has cancelled the work, else `error`.
  [[noreturn, gnu::cold]] void throw_error_of_work(std::exception_ptr error) const;
  [[noreturn, gnu::cold]] void throw_error_of_work(std::error_code error) const;
  /// Returns the code of the error that throw_error_of_work() would throw, for as_expected();
  /// throws an exception that as_expected() does not return as a value.
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
  [[no_unique_address]] traced_field<promise_base*> traced_awaiting_;
  stand_in<deadline_stop> frame_{&resume_frame, &destroy_frame};
  executor* task_executor_ = nullptr;
  timer_service* timers_ = nullptr;
  std::optional<linked_stop_source> source_;
  std::optional<stopped_by> replaced_stop_;  // set until the result is taken
  bool is_working_ = false;                  // whether the work runs, or was destroyed while it ran
  bool has_work_ended_ = false;
  bool limit_came_first_ = false;
  wait_core core_{work_end | expiry};
};

}  // namespace gyre::detail

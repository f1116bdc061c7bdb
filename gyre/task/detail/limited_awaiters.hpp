// SPDX-License-Identifier: Apache-2.0
// limited_task, limited_operation, expiring_operation: the awaitables of with_timeout().
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/deadline_stop.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/detail/transfer.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/time_limit_error.hpp>

#include <chrono>
#include <concepts>
#include <coroutine>
#include <exception>
#include <expected>
#include <type_traits>
#include <utility>

namespace gyre::detail {

/// The awaitable of with_timeout() for a task. It receives the task's error without a throw.
template <class T>
class [[nodiscard]] limited_task final : public suspends_always, deadline_stop {
 public:
  limited_task(task<T> work, duration limit) noexcept
      : deadline_stop(limit), work_(std::move(work)) {}
  /// Converts to a task, for functions that take or return one.
  operator task<T>() && { return as_task(std::move(*this)); }

  template <has_context Promise>
  GYRE_INLINE_IN_GCC std::coroutine_handle<> await_suspend(
      std::coroutine_handle<Promise> coroutine) {
    if (!work_.valid()) [[unlikely]]
      throw_empty_task();
    return transfer_to(begin(coroutine));
  }
  T await_resume() {
    check_has_run();
    if (std::exception_ptr error = take_error()) [[unlikely]]
      throw_error_of_work(std::move(error));
    return state().take_result();
  }
  /// Returns the outcome of the wait, for as_expected().
  expected_t<T> result() {
    if (!has_run()) [[unlikely]]
      return std::unexpected(no_timers());
    if (std::exception_ptr error = take_error()) [[unlikely]]
      return std::unexpected(value_of_error(std::move(error)));
    if constexpr (std::is_void_v<T>) {
      state().take_result();
      return {};
    } else {
      return state().take_result();
    }
  }

 private:
  task_state<T>& state() noexcept { return task_access::state(work_); }
  std::exception_ptr take_error() noexcept {
    const stop_restorer restorer(*this);
    state().end_without_continuation();
    return state().take_error();
  }
  std::coroutine_handle<> start_work(stand_in_handle stand_in) noexcept override {
    return state().prepare(stand_in);
  }

  task<T> work_;
};

/// Awaiters that an awaiter of with_timeout() can hold without a coroutine of their own: single
/// operations of gyre, which neither throw before they wait nor transfer to a coroutine.
template <class Awaiter>
concept single_operation =
    std::same_as<std::remove_cvref_t<decltype(awaiter_of(std::declval<Awaiter>()))>, Awaiter> &&
    resumes_on_executor<Awaiter> &&
    requires(Awaiter& awaiter, deadline_stop::stand_in_handle stand_in) {
      { awaiter.result() } -> std::same_as<expected_t<task_result_t<Awaiter>>>;
      { awaiter.await_ready() } noexcept -> std::same_as<bool>;
      { awaiter.await_suspend(stand_in) } noexcept -> std::same_as<bool>;
    };

/// The awaitable of with_timeout() for a single operation. The operation returns a stop as a value,
/// so that an exception is thrown only in the coroutine.
template <single_operation Operation>
class [[nodiscard]] limited_operation final : public suspends_always, deadline_stop {
 public:
  using value_type = task_result_t<Operation>;

  limited_operation(Operation work, duration limit)
      : deadline_stop(limit), operation_(std::move(work)) {}
  /// Converts to a task, for functions that take or return one.
  operator task<value_type>() && { return as_task(std::move(*this)); }

  template <has_context Promise>
  GYRE_INLINE_IN_GCC std::coroutine_handle<> await_suspend(
      std::coroutine_handle<Promise> coroutine) {
    return transfer_to(begin(coroutine));
  }
  value_type await_resume() {
    check_has_run();
    if (!limit_came_first()) [[likely]] {
      const stop_restorer restorer(*this);
      return operation_.await_resume();
    }
    auto outcome = outcome_of_operation();
    if (!outcome) throw_error_of_work(outcome.error());
    if constexpr (!std::is_void_v<value_type>) return *std::move(outcome);
  }
  /// Returns the outcome of the wait, for as_expected().
  expected_t<value_type> result() {
    if (!has_run()) [[unlikely]]
      return std::unexpected(no_timers());
    auto outcome = outcome_of_operation();
    if (!outcome) [[unlikely]]
      return std::unexpected(error_of_work(outcome.error()));
    return outcome;
  }

 private:
  // Returns the operation's outcome, a stop by the limit included, and restores the stop token.
  expected_t<value_type> outcome_of_operation() {
    const stop_restorer restorer(*this);
    const stops_as_errors no_throw(context());
    return operation_.result();
  }
  std::coroutine_handle<> start_work(stand_in_handle stand_in) noexcept override {
    const bool is_waiting = !operation_.await_ready() && operation_.await_suspend(stand_in);
    return is_waiting ? std::noop_coroutine() : std::coroutine_handle<>();
  }

  Operation operation_;
};

/// Operations that wait on the thread of a loop, whose timer can end the wait there without a stop
/// request:
///
///     begin_wait(coroutine) -> bool     as await_suspend(); false: the wait is over already
///     timers()                          the loop; called while the operation waits
///     expire()                          ends the wait as a stop does, unless the wait has ended or
///                                       is being stopped; resumes the coroutine
///     has_expired() -> bool             after the wait: whether expire() has ended it
template <class Operation>
concept expirable_operation =
    single_operation<Operation> &&
    requires(Operation& operation, deadline_stop::stand_in_handle coroutine) {
      { operation.begin_wait(coroutine) } noexcept -> std::same_as<bool>;
      operation.timers().start_time_limit(std::declval<timer_operation&>(), duration());
      operation.expire();
      { operation.has_expired() } noexcept -> std::same_as<bool>;
    };

/// The awaitable of with_timeout() for an operation of a loop. It has a timer, but no stop source:
/// a limit that does not expire costs only the start and the cancellation of the timer. An
/// operation that completes at once starts no timer.
template <expirable_operation Operation>
class [[nodiscard]] expiring_operation final : timer_operation {
 public:
  using value_type = task_result_t<Operation>;

  expiring_operation(Operation&& operation, std::chrono::nanoseconds limit) noexcept
      : timer_operation(&on_expiry), operation_(std::move(operation)), limit_(limit) {}
  /// Requires that `other` was not awaited.
  expiring_operation(expiring_operation&& other) noexcept
      : expiring_operation(std::move(other.operation_), other.limit_) {}
  expiring_operation(const expiring_operation& other) noexcept
    requires std::copy_constructible<Operation>
      : expiring_operation(Operation(other.operation_), other.limit_) {}
  expiring_operation& operator=(const expiring_operation&) = delete;
  ~expiring_operation() { cancel_timer(); }
  /// Converts to a task, for functions that take or return one.
  operator task<value_type>() && { return as_task(std::move(*this)); }

  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) noexcept {
    if (!operation_.begin_wait(coroutine)) return gives_way(context_of(coroutine), coroutine);
    timers_ = &operation_.timers();
    timers_->start_time_limit(*this, limit_);
    return true;
  }
  value_type await_resume() {
    cancel_timer();
    if (operation_.has_expired()) [[unlikely]]
      throw_time_limit_expired(limit_);
    return operation_.await_resume();
  }
  /// Returns the outcome of the wait, for as_expected().
  expected_t<value_type> result() {
    cancel_timer();
    if (operation_.has_expired()) [[unlikely]]
      return std::unexpected(make_error_code(time_limit_errc::expired));
    return operation_.result();
  }

 private:
  void cancel_timer() noexcept {
    if (this->linked()) timers_->cancel_timer(*this);
  }
  static void on_expiry(timer_operation& timer) {
    static_cast<expiring_operation&>(timer).operation_.expire();
  }

  using timers = decltype(&std::declval<Operation&>().timers());

  Operation operation_;
  timers timers_ = nullptr;  // set before the timer is started
  const std::chrono::nanoseconds limit_;
};

/// Returns the awaitable of with_timeout(), of the cheapest kind that `awaitable` allows.
template <awaitable Awaitable>
[[nodiscard]] auto limit_time(Awaitable&& awaitable, duration limit) {
  if constexpr (expirable_operation<Awaitable>) {
    return expiring_operation<Awaitable>(std::forward<Awaitable>(awaitable), limit);
  } else if constexpr (single_operation<Awaitable>) {
    return limited_operation<Awaitable>(std::forward<Awaitable>(awaitable), limit);
  } else {
    return limited_task<task_result_t<Awaitable>>(as_task(std::forward<Awaitable>(awaitable)),
                                                  limit);
  }
}

}  // namespace gyre::detail

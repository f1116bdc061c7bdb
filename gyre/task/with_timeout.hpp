// SPDX-License-Identifier: Apache-2.0
// with_timeout: awaits an operation and stops it when a time limit expires.
//
//     auto reply = co_await gyre::with_timeout(ask(server), 2s);
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/as_task.hpp>
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

namespace gyre {
namespace detail {

/// The awaitable of with_timeout() for a task, whose error it takes without a throw.
template <class T>
class [[nodiscard]] limited_task final : public suspends_always, deadline_stop {
 public:
  limited_task(task<T> work, duration limit) noexcept
      : deadline_stop(limit), work_(std::move(work)) {}
  /// For functions that take or return a task.
  operator task<T>() && { return as_task(std::move(*this)); }

  template <has_context Promise>
  GYRE_INLINE_IN_GCC std::coroutine_handle<> await_suspend(
      std::coroutine_handle<Promise> awaiting) {
    if (!work_.valid()) [[unlikely]]
      throw_empty_task();
    return transfer_to(begin(awaiting));
  }
  T await_resume() {
    check_has_run();
    if (std::exception_ptr error = take_error()) [[unlikely]]
      throw_error_of_work(std::move(error));
    return state().take_result();
  }
  /// For as_expected().
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
    state().end_without_continuation();
    return state().take_error();
  }
  std::coroutine_handle<> start_work(stand_in_handle stand_in) noexcept override {
    return state().prepare(stand_in);
  }

  task<T> work_;
};

/// Awaiters that can wait in an awaiter of with_timeout(), without a coroutine of their own: single
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

/// The awaitable of with_timeout() for a single operation. The operation's wait reports a stop as a
/// value, so that only the coroutine throws.
template <single_operation Operation>
class [[nodiscard]] limited_operation final : public suspends_always, deadline_stop {
 public:
  using value_type = task_result_t<Operation>;

  limited_operation(Operation work, duration limit)
      : deadline_stop(limit), operation_(std::move(work)) {}
  /// For functions that take or return a task.
  operator task<value_type>() && { return as_task(std::move(*this)); }

  template <has_context Promise>
  GYRE_INLINE_IN_GCC std::coroutine_handle<> await_suspend(
      std::coroutine_handle<Promise> awaiting) {
    return transfer_to(begin(awaiting));
  }
  value_type await_resume() {
    check_has_run();
    if (!was_first()) [[likely]]
      return operation_.await_resume();
    auto ended = result_without_stop();
    if (!ended) throw_error_of_work(ended.error());
    if constexpr (!std::is_void_v<value_type>) return *std::move(ended);
  }
  /// For as_expected().
  expected_t<value_type> result() {
    if (!has_run()) [[unlikely]]
      return std::unexpected(no_timers());
    auto ended = result_without_stop();
    if (!ended) [[unlikely]]
      return std::unexpected(error_of_work(ended.error()));
    return ended;
  }

 private:
  // The operation would throw gyre::operation_cancelled if the context were stopped.
  expected_t<value_type> result_without_stop() {
    const stopped_by nobody(context(), inplace_stop_token());
    return operation_.result();
  }
  std::coroutine_handle<> start_work(stand_in_handle stand_in) noexcept override {
    const bool waits = !operation_.await_ready() && operation_.await_suspend(stand_in);
    return waits ? std::noop_coroutine() : std::coroutine_handle<>();
  }

  Operation operation_;
};

}  // namespace detail

/// Awaits `awaitable` and gives its result, but asks it to stop when `limit` has passed since the
/// await began. `awaitable` is awaited to its end all the same, and a value that comes in spite of
/// the limit is given. A limit of zero or less expires in the executor's next turn. For errors as
/// values write as_expected(with_timeout(…)), as with_timeout() throws.
/// Converts to a task.
///
/// Lifetime: on an executor of one thread, the coroutine may be destroyed on that thread while it
/// waits, if `awaitable` allows that.
/// Errors: time_limit_errc::expired (equal to std::errc::timed_out) if the limit ended `awaitable`,
/// with the limit in what(); else those of `awaitable`, also that of a task which was stopped and
/// whose end `awaitable` has taken (join_set::next(), join_handle::join(), a future's);
/// std::errc::operation_not_supported where the coroutine's executor has no timers.
/// Complexity: a timer and a stop callback in the frame of the coroutine that awaits it, some 300
/// bytes. No allocation for a task or for a single operation of gyre (a read, a sleep); a coroutine
/// frame for other awaitables. An expiry throws once, in the awaiting coroutine (not at all for
/// as_expected()), besides the throws of the coroutines of `awaitable`.
template <awaitable Awaitable>
[[nodiscard]] auto with_timeout(Awaitable awaitable, duration limit) {
  if constexpr (detail::single_operation<Awaitable>) {
    return detail::limited_operation<Awaitable>(std::move(awaitable), limit);
  } else {
    return detail::limited_task<task_result_t<Awaitable>>(as_task(std::move(awaitable)), limit);
  }
}
// Explains wrong arguments: see base/detail/misuse.hpp.
std::suspend_never with_timeout(detail::misused_awaitable explained, duration limit);
template <awaitable Awaitable>
std::suspend_never with_timeout(Awaitable&& awaitable, detail::misused_duration explained);

}  // namespace gyre

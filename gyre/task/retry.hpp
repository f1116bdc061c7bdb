// SPDX-License-Identifier: Apache-2.0
// retry: awaits an operation again after a failure, with exponential backoff and jitter.
//
//     const auto attempt = [&] { return gyre::with_timeout(fetch(url), 1s); };
//     std::string page = co_await gyre::retry(attempt, {.attempts = 3, .time_limit = 10s});
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/splitmix64.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/base/exponential_backoff.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/attempt.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>

#include <chrono>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

namespace gyre {

/// Options of retry().
struct retry_options {
  /// The maximum number of attempts, the first included; at least one.
  std::size_t attempts = 5;
  /// The delays between the attempts.
  exponential_backoff delay = {};
  /// Whether each delay is a random time between zero and that of `delay` (full jitter).
  bool jitter = true;
  /// The time after the start of the first attempt at which the last one may start. It does not
  /// stop an attempt that runs: use with_timeout() around the attempt or around retry(). None: no
  /// limit.
  std::optional<duration> time_limit = {};
  /// Seed of the random delays; the same seed gives the same delays. None: a random seed.
  std::optional<std::uint64_t> seed = {};
};

/// Returns whether retry() tries again after `error`, unless it has another condition: true for a
/// std::runtime_error, which by definition has causes outside of the program, such as a
/// std::system_error. False for std::errc::operation_canceled, a deliberate cancellation; for
/// std::errc::invalid_argument, such as a malformed address, which stays wrong; and for other
/// exceptions, such as std::logic_error, a bug, or std::bad_alloc.
[[nodiscard]] bool is_retryable(const std::exception_ptr& error) noexcept;

namespace detail {

using retry_condition = bool (*)(const std::exception_ptr& error) noexcept;

}  // namespace detail

/// Awaits an attempt, which is an awaitable that `make` returns, and another one after each
/// failure, until one succeeds, and returns its result. `make` is called without an argument or
/// with the number of the attempt, counted from 0. `retry_if(error)` returns whether another
/// attempt may follow that std::exception_ptr; the default is is_retryable(). It is not called for
/// a stop, which ends the attempt or the delay, and thereby retry(), at once.
///
/// Lifetime: `make` and `retry_if` exist until retry() has ended.
/// Errors: the error of the last attempt, which may be an exception of `make`; exceptions of
/// `retry_if`; gyre::operation_cancelled when asked to stop. std::invalid_argument at once for no
/// attempts or a negative time. std::errc::operation_not_supported if the executor has no timers.
/// Complexity: a coroutine frame, and one for each attempt that is not a task. A failed attempt
/// causes no further throw, except in is_retryable(), which rethrows the error to find its type.
template <detail::attempt_maker Make,
          std::predicate<const std::exception_ptr&> RetryIf = detail::retry_condition>
[[nodiscard]] auto retry(Make make, retry_options options = {}, RetryIf retry_if = &is_retryable);
// This overload explains wrong arguments: see base/detail/misuse.hpp.
template <class... More>
std::suspend_never retry(detail::misused_attempt explained, retry_options options = {},
                         More&&... arguments);

namespace detail {

/// Throws std::invalid_argument if an option is out of its range.
void check(const retry_options& options);

/// The delays of a retry().
class retry_schedule {
 public:
  /// Throws std::system_error (std::errc::operation_not_supported) if the executor has no timers.
  retry_schedule(const retry_options& options, const task_context& context);

  /// Returns the delay after `failed_attempts`; none if no other attempt may start.
  std::optional<std::chrono::nanoseconds> next_delay(std::size_t failed_attempts) noexcept;

 private:
  const retry_options& options_;
  timer_service& timers_;
  const steady_time latest_start_;
  std::optional<splitmix64> random_;
};

template <class T, class Make, class RetryIf>
task<T> retry_with(Make make, retry_options options, RetryIf retry_if) {
  const task_context& context = co_await this_context();
  retry_schedule schedule(options, context);
  for (std::size_t failed_attempts = 0;;) {
    task<T> attempt;
    std::exception_ptr error;
    try {
      attempt = as_task(make_attempt(make, failed_attempts));
    } catch (...) {
      error = caught_error();
    }
    if (error == nullptr) {
      co_await await_ready_state(attempt);
      error = task_access::state(attempt).take_error();
      if (error == nullptr) co_return co_await take_result(attempt);
    }
    std::optional<duration> delay = schedule.next_delay(++failed_attempts);
    if (error == cancellation() || (delay && !retry_if(std::as_const(error)))) delay.reset();
    if (!delay) co_await fail_with(error);
    co_await sleep_for(*delay);
  }
}

}  // namespace detail

template <detail::attempt_maker Make, std::predicate<const std::exception_ptr&> RetryIf>
auto retry(Make make, retry_options options, RetryIf retry_if) {
  detail::check(options);
  return detail::retry_with<detail::attempt_result_t<Make>>(std::move(make), options,
                                                            std::move(retry_if));
}

}  // namespace gyre

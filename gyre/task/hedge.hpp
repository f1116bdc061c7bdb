// SPDX-License-Identifier: Apache-2.0
// hedge: starts a second attempt when the first one takes long, and returns the result that comes
// first.
//
//     auto reply = co_await gyre::hedge([&](std::size_t i) { return ask(replicas[i]); },
//                                       {.delay = 10ms, .attempts = 2});
//
// Source: Dean and Barroso, "The tail at scale", Communications of the ACM, 2013 ("hedged
// requests").
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/attempt.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/child_group.hpp>
#include <gyre/task/detail/require_timers.hpp>
#include <gyre/task/detail/success_race.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <deque>
#include <exception>
#include <new>
#include <utility>

namespace gyre {

/// Options of hedge().
struct hedge_options {
  /// The time after an attempt's start at which the next one starts; must be positive. The 95th
  /// percentile of the expected duration adds only some 5 % of load.
  duration delay = duration::zero();
  /// The maximum number of attempts, the first included; at least one.
  std::size_t attempts = 2;
};

/// Starts an attempt, which is an awaitable that `make` returns, and another one each time the
/// latest has failed, or has not succeeded within `delay`, up to `attempts`. Returns the result of
/// the first attempt that succeeds; the others are then asked to stop, and awaited until they end.
/// `make` is called without an argument or with the number of the attempt, counted from 0. For
/// requests that may be carried out twice, such as reads.
///
/// Thread-safety: calls `make`, starts the attempts and resumes on the coroutine's executor.
/// Lifetime: `make` exists until all attempts have ended. A coroutine that waits may be destroyed
/// as in when_any().
/// Errors: std::invalid_argument at once for a delay that is not positive or no attempts. If all
/// attempts fail, the error of the attempt that failed last; an exception of `make` is the failure
/// of its attempt. A stop of the coroutine stops all attempts, and throws gyre::operation_cancelled
/// unless one of them succeeds. std::errc::operation_not_supported if the executor has no timers.
/// Complexity: a coroutine frame, one for each delay and one for each attempt that is not a task,
/// and two allocations for the list of attempts.
template <detail::attempt_maker Make>
[[nodiscard]] auto hedge(Make make, hedge_options options);
// This overload explains wrong arguments: see base/detail/misuse.hpp.
std::suspend_never hedge(detail::misused_attempt explained, hedge_options options);

namespace detail {

/// Throws std::invalid_argument if an option is out of its range.
void check(const hedge_options& options);

/// The attempts of a hedge(), and the delay until the next attempt.
template <class T, class Make>
class hedged_attempts {
 public:
  hedged_attempts(child_group& group, Make& make, const hedge_options& options)
      : group_(group),
        make_(make),
        options_(options),
        timers_(require_timers(group.parent(), "gyre::hedge")),
        next_start_(timers_.now()),
        delay_(group),
        race_(group) {}

  /// Starts the next attempt if it is due, and the delay if another attempt may follow. Returns
  /// false when all children have ended.
  bool proceed() noexcept {
    while (may_start() && timers_.now() >= next_start_) {
      if (start_next()) break;
    }
    if (group_.has_ended()) return true;
    if (may_start()) {
      start_delay();
    } else if (running_count_ == 0) {
      group_.request_stop();  // only the delay still runs, which this ends
    }
    return group_.running() > 0;
  }
  /// Adds a child that has ended.
  void add(child_group::child& child) noexcept {
    if (&child == &delay_) return;
    --running_count_;
    race_.add(child);
    if (&child == latest_) start_next_at_once();
  }

  std::exception_ptr take_error() noexcept { return race_.take_error(); }
  task<T>& winner() noexcept { return race_.winner(); }

 private:
  bool may_start() const noexcept {
    if (started_count_ == 0) return true;
    return started_count_ < options_.attempts && !race_.is_won() && !group_.stop_requested();
  }
  void start_next_at_once() noexcept { next_start_ = timers_.now(); }

  // Starts the next attempt. Returns false if the attempt could not be started.
  bool start_next() noexcept {
    latest_ = nullptr;
    try {
      child_task<T>& attempt =
          attempts_.emplace_back(group_, as_task(make_attempt(make_, started_count_++)));
      attempt.start();
      latest_ = &attempt;
      ++running_count_;
      next_start_ = later(timers_.now(), options_.delay);
      return true;
    } catch (...) {
      race_.fail(caught_error());
      start_next_at_once();
      return false;
    }
  }
  // Starts the delay until the next attempt. Called while an attempt runs.
  void start_delay() noexcept {
    if (delay_.runs) return;
    try {
      delay_.work = as_task(sleep_until(next_start_));
      delay_.start();
    } catch (const std::bad_alloc&) {
      // Without memory for the delay, proceed() tries again when an attempt has ended.
      return;
    }
  }

  child_group& group_;
  Make& make_;
  const hedge_options& options_;
  timer_service& timers_;
  steady_time next_start_;
  std::size_t started_count_ = 0;
  std::size_t running_count_ = 0;
  std::deque<child_task<T>> attempts_;
  const child_group::child* latest_ = nullptr;
  child_task<void> delay_;  // a child that wakes the parent when the next attempt is due
  success_race<T> race_;
};

template <class T, class Make>
task<T> hedge_with(Make make, hedge_options options) {
  child_group group;
  co_await group.adopt();
  hedged_attempts<T, Make> attempts(group, make, options);
  while (attempts.proceed()) {
    child_group::child& child = co_await group.wait_for_end();
    attempts.add(child);
  }
  std::exception_ptr error = attempts.take_error();
  co_await fail_with(error);
  co_return co_await take_result(attempts.winner());
}

}  // namespace detail

template <detail::attempt_maker Make>
auto hedge(Make make, hedge_options options) {
  detail::check(options);
  return detail::hedge_with<detail::attempt_result_t<Make>>(std::move(make), options);
}

}  // namespace gyre

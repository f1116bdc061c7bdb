// SPDX-License-Identifier: Apache-2.0
// rate_limiter: a token bucket that coroutines wait for.
//
//     gyre::rate_limiter limit({.tokens = 100, .per = 1s, .burst = 10});
//
//     co_await limit.acquire();
//     co_await send(request);  // at most 100 times a second, and 10 at once
//
// Source: the token bucket (Turner, "New directions in communications", 1986) in the form of the
// generic cell rate algorithm (ITU-T I.371, 1993), which keeps one time instead of a counter.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/sync/detail/acquire_tokens.hpp>
#include <gyre/sync/mutex.hpp>

#include <chrono>
#include <cstdint>

namespace gyre {

/// Options of a rate_limiter.
struct rate_limiter_options {
  /// The tokens that come `per` that time, evenly spread. Positive.
  std::uint64_t tokens = 1;
  duration per = std::chrono::seconds{1};
  /// The most tokens that the bucket holds, and thus that can be taken at once. Positive. Timers
  /// wake some 0.1 ms late: a limiter that is to reach its full rate needs the tokens of that time.
  std::uint64_t burst = 1;
};

/// Tokens that come at a fixed rate, up to a limit, and that coroutines take and wait for: first
/// come, first served, also for many tokens at once. In any time `t` at most `burst` plus the rate
/// times `t` are taken, exactly. The bucket is full at first.
///
/// The coroutine at the head of the line waits on its executor's timers; an executor that is busy
/// then delays those behind it. The clocks of all executors must be the same.
///
/// Thread-safety: every member may be called from any thread.
/// Lifetime: must outlive its waits.
/// Errors: the constructor throws std::invalid_argument for an option that is not positive or more
/// than 2^62; acquiring throws it for more tokens than `burst`.
/// Complexity: without waiting two compare-exchanges and some integer arithmetic of 128 bits; a
/// wait is a node in the line and a timer, both in the awaiter, of some 400 bytes; no allocation.
class rate_limiter {
 public:
  /// The awaitable of acquire(), without a result.
  using acquire_operation = detail::acquire_tokens;

  explicit rate_limiter(rate_limiter_options options);
  rate_limiter& operator=(rate_limiter&&) = delete;

  /// Awaited, takes `tokens` after the present waiters, and waits until they have come. A stop
  /// request counts only if it has to wait.
  ///
  /// Lifetime: as sleep_for().
  /// Errors: throws gyre::operation_cancelled when asked to stop, and then has taken nothing and
  /// delays nobody; std::errc::operation_not_supported if the executor has no timers.
  acquire_operation acquire(std::uint64_t tokens = 1) {
    check(tokens);
    return acquire_operation(*this, tokens);
  }

  /// Takes `tokens` if they are there at the time `now` (of loop::now(), of timer_service::now())
  /// and nothing waits. May fail spuriously while another thread takes tokens.
  [[nodiscard]] bool try_acquire(steady_time now, std::uint64_t tokens = 1);

 private:
  friend acquire_operation;

  /// A time in units of which a nanosecond has `rate_` and a token costs `period_`.
  __extension__ using scaled_time = __int128;

  void check(std::uint64_t tokens) const;
  // The rest belongs to the holder of the lock.
  steady_time ready_at(std::uint64_t tokens, steady_time now) const noexcept;
  void take(std::uint64_t tokens, steady_time now) noexcept;
  scaled_time scaled(steady_time time) const noexcept;
  scaled_time cost(std::uint64_t tokens) const noexcept;

  const std::uint64_t rate_;
  const std::uint64_t period_;
  const std::uint64_t burst_;
  scaled_time full_at_;  // when the bucket is full again
  mutex line_;           // held by the coroutine at the head, also while it waits for tokens
};

}  // namespace gyre

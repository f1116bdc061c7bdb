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
#include <gyre/sync/mutex.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/stand_in.hpp>
#include <gyre/task/sleep.hpp>

#include <chrono>
#include <coroutine>
#include <cstdint>
#include <expected>
#include <optional>
#include <system_error>

namespace gyre {

/// The options of a rate_limiter.
struct rate_limiter_options {
  /// The number of tokens that become available in each time `per`, evenly spread. Must be
  /// positive.
  std::uint64_t tokens = 1;
  duration per = std::chrono::seconds{1};
  /// The most tokens that the bucket holds, and thus that can be taken at once. Must be positive.
  /// Timers wake some 0.1 ms late: a limiter that is to reach its full rate needs the tokens of
  /// that time.
  std::uint64_t burst = 1;
};

/// Tokens that come at a fixed rate, up to a limit, and that coroutines take and wait for: first
/// come, first served, also for many tokens at once. In any time `t`, at most `burst` plus the rate
/// times `t` are taken, exactly. The bucket is full at first.
///
/// The coroutine at the head of the line waits on its executor's timers; a busy executor delays the
/// coroutines after it. The clocks of all executors must be the same.
///
/// Thread-safety: every member may be called from any thread.
/// Lifetime: must outlive its waits.
/// Errors: the constructor throws std::invalid_argument for an option that is not positive or more
/// than 2^62; acquiring throws it for more tokens than `burst`.
/// Complexity: without waiting two compare-exchanges and some integer arithmetic of 128 bits; a
/// wait is a node in the line and a timer, both in the awaiter, of some 400 bytes; no allocation.
class rate_limiter {
 public:
  class acquire_operation;

  explicit rate_limiter(rate_limiter_options options);
  rate_limiter& operator=(rate_limiter&&) = delete;

  /// Awaited, takes `tokens` after the present waiters, and waits until they have come. A stop
  /// request has an effect only if the coroutine has to wait.
  ///
  /// Lifetime: as sleep_for().
  /// Errors: throws gyre::operation_cancelled when asked to stop, and then has taken nothing and
  /// delays no other waiter; std::errc::operation_not_supported if the executor has no timers.
  inline acquire_operation acquire(std::uint64_t tokens = 1);

  /// Takes `tokens` if they are available at the time `now` (of loop::now() or
  /// timer_service::now()) and nothing waits. May fail spuriously while another thread takes
  /// tokens.
  [[nodiscard]] bool try_acquire(steady_time now, std::uint64_t tokens = 1);

 private:
  /// A time in units of 1 / rate_ nanoseconds. A token costs period_ of these units, so that the
  /// bucket's arithmetic is exact.
  __extension__ using scaled_time = __int128;

  void check(std::uint64_t tokens) const;
  // The holder of line_ calls the functions below.
  steady_time ready_at(std::uint64_t tokens, steady_time now) const noexcept;
  void take(std::uint64_t tokens, steady_time now) noexcept;
  scaled_time to_scaled_time(steady_time time) const noexcept;
  scaled_time cost(std::uint64_t tokens) const noexcept;

  const std::uint64_t rate_;
  const std::uint64_t period_;
  const std::uint64_t burst_;
  scaled_time full_at_;  // the time at which the bucket is full again; guarded by line_
  mutex line_;           // held while a coroutine waits for tokens or takes them
};

/// The awaitable of rate_limiter::acquire(), without a result. It waits in the limiter's line, and
/// at the head of the line for the tokens. Each of the two waits resumes a stand-in for the
/// coroutine, on the coroutine's executor.
///
/// | wait that ends | the awaiter then |
/// |---|---|
/// | for the head, stopped | resumes the coroutine |
/// | for the head | takes the tokens if they are available, else waits for them |
/// | for the tokens, stopped | leaves the line, resumes the coroutine |
/// | for the tokens | takes them, leaves the line, resumes the coroutine |
class rate_limiter::acquire_operation {
 public:
  acquire_operation(rate_limiter& limiter, std::uint64_t tokens) noexcept
      : limiter_(&limiter), tokens_(tokens) {}
  /// Copies an awaiter that has not been awaited.
  acquire_operation(const acquire_operation& other) noexcept
      : acquire_operation(*other.limiter_, other.tokens_) {}
  acquire_operation& operator=(const acquire_operation&) = delete;

  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  template <detail::has_context Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) noexcept {
    coroutine_ = coroutine;
    frame_.make_stand_in(coroutine, *this);
    return begin();
  }
  void await_resume();
  std::expected<void, std::error_code> result();

 private:
  bool begin() noexcept;
  bool reach_head() noexcept;
  bool take_tokens() noexcept;
  template <class Wait>
  auto result_of(Wait& wait) noexcept;
  static void resume_frame(void* frame);
  static void destroy_frame(void* frame) noexcept;

  rate_limiter* limiter_;
  std::uint64_t tokens_;
  std::coroutine_handle<> coroutine_;
  detail::stand_in<acquire_operation> frame_{&resume_frame, &destroy_frame};
  std::errc error_{};
  mutex::guard head_;  // locked while this operation is the first in the line
  std::optional<mutex::lock_operation> line_wait_;
  std::optional<detail::sleep_awaiter> token_wait_;
};

inline auto rate_limiter::acquire(std::uint64_t tokens) -> acquire_operation {
  check(tokens);
  return acquire_operation(*this, tokens);
}

}  // namespace gyre

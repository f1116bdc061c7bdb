// SPDX-License-Identifier: Apache-2.0
// acquire_tokens: the awaiter of rate_limiter::acquire().
#pragma once

#include <gyre/sync/mutex.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/stand_in.hpp>
#include <gyre/task/sleep.hpp>

#include <coroutine>
#include <cstdint>
#include <expected>
#include <optional>
#include <system_error>

namespace gyre {

class rate_limiter;

namespace detail {

/// Waits in the limiter's line, and at its head for the tokens. Each of both waits resumes a
/// stand-in for the coroutine, on the coroutine's executor.
///
/// | wait that ends | the awaiter then |
/// |---|---|
/// | for the head, stopped | resumes the coroutine |
/// | for the head | takes the tokens if they are there, else waits for them |
/// | for the tokens, stopped | leaves the line, resumes the coroutine |
/// | for the tokens | takes them, leaves the line, resumes the coroutine |
class acquire_tokens {
 public:
  acquire_tokens(rate_limiter& limiter, std::uint64_t tokens) noexcept
      : limiter_(&limiter), tokens_(tokens) {}
  /// Before it is awaited.
  acquire_tokens(const acquire_tokens& other) noexcept
      : acquire_tokens(*other.limiter_, other.tokens_) {}
  acquire_tokens& operator=(const acquire_tokens&) = delete;

  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  template <has_context Promise>
  bool await_suspend(std::coroutine_handle<Promise> awaiting) noexcept {
    awaiting_ = awaiting;
    frame_.stand_for(awaiting, *this);
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
  static void resume_frame(void* resumed);
  static void destroy_frame(void* destroyed) noexcept;

  rate_limiter* limiter_;
  std::uint64_t tokens_;
  std::coroutine_handle<> awaiting_;
  stand_in<acquire_tokens> frame_{&resume_frame, &destroy_frame};
  std::errc error_{};
  mutex::guard head_;  // of the line
  std::optional<mutex::lock_operation> line_wait_;
  std::optional<sleep_awaiter> token_wait_;
};

}  // namespace detail
}  // namespace gyre

// SPDX-License-Identifier: Apache-2.0
// request_clock: the time limits of a client's request, and its name in errors.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/http/error.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/with_timeout.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace gyre::http::detail {

/// Thread-safety: the loop's thread.
/// Lifetime: must outlive the tasks of wait().
class request_clock {
 public:
  /// `total`: the time limit of the whole request; zero means none. `request`: the name in errors,
  /// such as "GET http://localhost/". The name is empty for a connection attempt, which several
  /// requests may share; the clock of each request then adds the name.
  request_clock(event_loop& loop, std::chrono::nanoseconds total, std::string request)
      : loop_(&loop), end_(expiry_of(total)), request_(std::move(request)) {}

  event_loop& loop() const noexcept { return *loop_; }
  void rename(std::string request) { request_ = std::move(request); }

  /// Returns the end of a time limit that begins now. Zero means no limit: steady_time::max().
  steady_time expiry_of(std::chrono::nanoseconds limit) const noexcept {
    return limit.count() == 0 ? steady_time::max() : loop_->deadline_after(limit);
  }

  /// Awaits `work` until `expiry`, or until the end of the request's time limit.
  /// Errors: errc::timed_out; those of `work`, changed by add_name().
  template <awaitable Awaitable>
  task<task_result_t<Awaitable>> wait(Awaitable work, steady_time expiry, const char* phase) const {
    const steady_time end = std::min(expiry, end_);
    std::exception_ptr error;
    try {
      if (end == steady_time::max()) co_return co_await std::move(work);
      const steady_time time = loop_->now();
      if (end <= time) fail(errc::timed_out, phase);
      auto limited_work = with_timeout(std::move(work), end - time);
      co_return co_await std::move(limited_work);
    } catch (...) {
      error = gyre::detail::caught_error();
    }
    const bool has_expired = end != steady_time::max() && loop_->now() >= end;
    error = add_name(std::move(error), has_expired ? phase : nullptr);
    co_await gyre::detail::fail_with(error);
    std::unreachable();
  }

  std::string describe(std::string_view phase) const {
    if (request_.empty()) return std::string(phase);
    return std::string("http::client: ").append(request_).append(": ").append(phase);
  }
  /// Returns `error`, with the request's name added if it is a std::system_error without one. If
  /// `limited_phase` is not null, time_limit_errc::expired becomes errc::timed_out in that phase.
  [[nodiscard, gnu::cold]] std::exception_ptr add_name(std::exception_ptr error,
                                                       const char* limited_phase = nullptr) const;
  /// Throws std::system_error with `error`, the request's name and `phase`.
  [[noreturn, gnu::cold]] void fail(std::error_code error, std::string_view phase) const {
    throw std::system_error(error, describe(phase));
  }

 private:
  event_loop* loop_;
  steady_time end_;
  std::string request_;
};

}  // namespace gyre::http::detail

// SPDX-License-Identifier: Apache-2.0
// request_clock: the time limits of a client's request, and the name it has in errors.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/http/error.hpp>
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
class request_clock {
 public:
  /// `total`: of the request; zero: none. `request`: "GET http://localhost/".
  request_clock(event_loop& loop, std::chrono::nanoseconds total, std::string request)
      : loop_(&loop), end_(expiry_of(total)), request_(std::move(request)) {}

  event_loop& loop() const noexcept { return *loop_; }
  void rename(std::string request) { request_ = std::move(request); }

  /// The end of a limit that begins now; zero: none.
  steady_time expiry_of(std::chrono::nanoseconds limit) const noexcept {
    return limit.count() == 0 ? steady_time::max() : loop_->deadline_after(limit);
  }

  /// Awaits `work` until `expiry`, or the end of the request's time. Errors: errc::timed_out.
  template <class T>
  task<T> wait(task<T> work, steady_time expiry, const char* phase) const {
    const steady_time end = std::min(expiry, end_);
    if (end == steady_time::max()) co_return co_await std::move(work);
    const steady_time now = loop_->now();
    if (end <= now) fail(errc::timed_out, phase);
    auto limited = with_timeout(std::move(work), end - now);
    try {
      co_return co_await std::move(limited);
    } catch (const std::system_error& error) {
      const bool expired = error.code() == time_limit_errc::expired;
      if (!expired || loop_->now() < end) throw;
    }
    fail(errc::timed_out, phase);
  }
  template <class T>
  task<T> wait(task<T> work, std::chrono::nanoseconds limit, const char* phase) const {
    return wait(std::move(work), expiry_of(limit), phase);
  }

  std::string describe(std::string_view phase) const {
    return std::string("http::client: ").append(request_).append(": ").append(phase);
  }
  /// The error with the request's name, if it is a std::system_error without it.
  [[nodiscard]] std::exception_ptr named(const std::exception_ptr& error) const;
  /// Throws std::system_error, with the request and `phase`.
  [[noreturn, gnu::cold]] void fail(std::error_code error, std::string_view phase) const {
    throw std::system_error(error, describe(phase));
  }

 private:
  event_loop* loop_;
  steady_time end_;
  std::string request_;
};

}  // namespace gyre::http::detail

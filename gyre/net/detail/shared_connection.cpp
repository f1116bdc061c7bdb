// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/shared_connection.hpp>

#include <gyre/base/detail/duration_check.hpp>
#include <gyre/net/detail/errors.hpp>

#include <string>
#include <string_view>

namespace gyre::net::detail {

void check(const reconnecting_client_options& options) {
  require(options.concurrency > 0 && options.concurrency <= semaphore::max(),
          "gyre::net::reconnecting_client: concurrency must be at least 1, and less than 2^62");
  require(options.attempts > 0, "gyre::net::reconnecting_client: attempts must be at least 1");
  require(options.max_waiting > 0,
          "gyre::net::reconnecting_client: max_waiting must be at least 1");
  gyre::detail::require_not_negative(options.delay.initial,
                                     "gyre::net::reconnecting_client: delay.initial");
  gyre::detail::require_not_negative(options.delay.longest,
                                     "gyre::net::reconnecting_client: delay.longest");
  require(options.uses > 0, "gyre::net::reconnecting_client: uses must be at least 1");
  gyre::detail::require_positive(options.connect_timeout,
                                 "gyre::net::reconnecting_client: connect_timeout");
  gyre::detail::require_not_negative(options.connecting.attempt_delay,
                                     "gyre::net::reconnecting_client: connecting.attempt_delay");
  gyre::detail::require_not_negative(options.connecting.resolution_delay,
                                     "gyre::net::reconnecting_client: connecting.resolution_delay");
}

void attempt_schedule::note_failure(steady_time now) noexcept {
  ++failures_;
  const std::chrono::nanoseconds delay = options_.jitter
                                             ? options_.delay.jittered_delay(failures_, generator_)
                                             : options_.delay.delay(failures_);
  next_attempt_ = gyre::detail::later(now, delay);
}

std::exception_ptr error_of_attempts(std::exception_ptr error, std::size_t attempts,
                                     const std::string& client) noexcept try {
  std::rethrow_exception(error);
} catch (const std::system_error& last) {
  try {
    std::string message = client + ": gave up after " + std::to_string(attempts) +
                          (attempts == 1 ? " attempt" : " attempts") + " to connect; the last: ";
    std::string_view of_last = last.what();
    if (const std::string reason = ": " + last.code().message(); of_last.ends_with(reason)) {
      of_last.remove_suffix(reason.size());
    }
    return std::make_exception_ptr(std::system_error(last.code(), message.append(of_last)));
  } catch (...) {
    return error;
  }
} catch (...) {
  return error;
}

}  // namespace gyre::net::detail

// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/retry.hpp>

#include <gyre/base/detail/duration_check.hpp>
#include <gyre/task/detail/require_timers.hpp>

#include <stdexcept>
#include <system_error>
#include <type_traits>

namespace gyre {

bool is_retryable(const std::exception_ptr& error) noexcept {
  if (error == nullptr || error == detail::cancellation()) return false;
  try {
    std::rethrow_exception(error);
  } catch (const std::system_error& failure) {
    return failure.code() != std::errc::operation_canceled &&
           failure.code() != std::errc::invalid_argument;
  } catch (const std::runtime_error&) {
    return true;
  } catch (...) {
    return false;
  }
}

namespace detail {
namespace {

// GCC 12 destroys braced options in an awaited expression twice, which is harmless only for a
// trivial destructor.
static_assert(std::is_trivially_destructible_v<retry_options>);

}  // namespace

void check(const retry_options& options) {
  if (options.attempts == 0)
    throw std::invalid_argument("gyre::retry: attempts is zero; it must be at least 1");
  require_not_negative(options.delay.initial, "gyre::retry: delay.initial");
  require_not_negative(options.delay.longest, "gyre::retry: delay.longest");
  if (options.time_limit) require_not_negative(*options.time_limit, "gyre::retry: time_limit");
}

retry_schedule::retry_schedule(const retry_options& options, const task_context& context)
    : options_(options),
      timers_(require_timers(context, "gyre::retry")),
      latest_start_(options.time_limit ? later(timers_.now(), *options.time_limit)
                                       : steady_time::max()) {}

std::optional<std::chrono::nanoseconds> retry_schedule::next_delay(
    std::size_t failed_attempts) noexcept {
  if (failed_attempts >= options_.attempts) return std::nullopt;
  std::chrono::nanoseconds delay = options_.delay.delay(failed_attempts);
  if (options_.jitter) {
    if (!random_) random_.emplace(options_.seed ? *options_.seed : random_seed());
    delay = options_.delay.jittered_delay(failed_attempts, *random_);
  }
  if (later(timers_.now(), delay) > latest_start_) return std::nullopt;
  return delay;
}

}  // namespace detail
}  // namespace gyre

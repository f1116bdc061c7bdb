// SPDX-License-Identifier: Apache-2.0
// message_limit: limits the rate of error messages, so that peers cannot fill a log.
//
//     if (!limit.may_print(now, "http::server", "errors of handlers")) return;
//     detail::log(log_level::error, "gyre: http::server: a handler threw");
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/detail/log.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace gyre::detail {

/// Admits ten messages at once and one per second, and counts the others. Implemented as a token
/// bucket that keeps the time at which it is full, like rate_limiter.
///
/// Thread-safety: any thread.
class message_limit {
 public:
  /// If a message may be printed at the time `now`, returns the number of messages suppressed since
  /// the last one; else returns nullopt.
  [[nodiscard]] std::optional<std::uint64_t> admit(steady_time now) noexcept {
    // relaxed, here and below: the counters order nothing.
    steady_time full_at = full_at_.load(std::memory_order_relaxed);
    do {
      if (full_at > now + (burst - 1) * period) {
        suppressed_messages_.fetch_add(1, std::memory_order_relaxed);
        return std::nullopt;
      }
    } while (!full_at_.compare_exchange_weak(full_at, std::max(full_at, now) + period,
                                             std::memory_order_relaxed));
    return suppressed_messages_.exchange(0, std::memory_order_relaxed);
  }

  /// Returns whether a message may be printed. If so, first prints how many messages were
  /// suppressed, if any: "gyre: SENDER: 3 more KIND, not printed".
  [[nodiscard]] bool may_print(steady_time now, const char* sender, const char* kind) noexcept {
    const std::optional<std::uint64_t> suppressed_count = admit(now);
    if (suppressed_count.value_or(0) > 0) {
      log(log_level::error, "gyre: ", sender, ": ", std::to_string(*suppressed_count), " more ",
          kind, ", not printed");
    }
    return suppressed_count.has_value();
  }

 private:
  static constexpr std::chrono::seconds period{1};
  static constexpr int burst = 10;

  atomic<steady_time> full_at_{steady_time::min()};
  atomic<std::uint64_t> suppressed_messages_{0};
};

}  // namespace gyre::detail

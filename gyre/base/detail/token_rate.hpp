// SPDX-License-Identifier: Apache-2.0
// token_rate: the rate and the size of token buckets, each of which is one number: the time at
// which it is full.
//
//     const token_rate logins(cost_of_login, 10 * cost_of_login);
//     std::int64_t alice = 0;  // full
//     const std::int64_t wait = logins.take(alice, now, 1);
//
// Source: the generic cell rate algorithm (ITU-T I.371, 1993).
#pragma once

#include <algorithm>
#include <cstdint>

namespace gyre::detail {

/// Times are in nanoseconds of the monotonic clock. A bucket is full if its time has passed.
///
/// Thread-safety: none.
class token_rate {
 public:
  /// `cost`: the time in which a token comes, positive. `fill_time`: the time in which an empty
  /// bucket fills; with the present time, it must not overflow.
  constexpr token_rate(std::int64_t cost, std::int64_t fill_time) noexcept
      : cost_(cost), fill_time_(fill_time) {}

  /// Returns the number of tokens in a bucket.
  constexpr std::uint64_t tokens(std::int64_t full_at, std::int64_t now) const noexcept {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(fill_time_ - debt(full_at, now), 0) /
                                      cost_);
  }
  /// Takes `count` tokens, at most as many as a bucket holds, and returns zero. If there are not as
  /// many, takes none, and returns the time until there are.
  [[nodiscard]] constexpr std::int64_t take(std::int64_t& full_at, std::int64_t now,
                                            std::uint64_t count = 1) const noexcept {
    const std::int64_t new_debt = debt(full_at, now) + cost_ * static_cast<std::int64_t>(count);
    if (new_debt > fill_time_) return new_debt - fill_time_;
    full_at = now + new_debt;
    return 0;
  }
  /// Returns `count` tokens to a bucket, of which those above its size are lost.
  constexpr void give(std::int64_t& full_at, std::uint32_t count) const noexcept {
    if (full_at > 0) full_at -= std::min(full_at, cost_ * static_cast<std::int64_t>(count));
  }

 private:
  static constexpr std::int64_t debt(std::int64_t full_at, std::int64_t now) noexcept {
    return full_at > now ? full_at - now : 0;
  }

  std::int64_t cost_;
  std::int64_t fill_time_;
};

}  // namespace gyre::detail

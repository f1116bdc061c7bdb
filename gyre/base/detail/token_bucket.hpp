// SPDX-License-Identifier: Apache-2.0
// token_bucket: limits how often somebody does something that is allowed, but costs others more.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/token_rate.hpp>

#include <algorithm>
#include <cstdint>

namespace gyre::detail {

/// Tokens that come at a fixed rate, up to a limit. See keyed_rate_limiter for the buckets of many
/// keys, and rate_limiter for tokens that coroutines wait for.
///
/// Thread-safety: none.
class token_bucket {
 public:
  /// `burst`: the tokens at the beginning, and their maximum. `per_second`: those that come back,
  /// at least one.
  constexpr token_bucket(std::uint32_t burst, std::uint32_t per_second) noexcept
      : rate_(cost_of(per_second), cost_of(per_second) * burst) {}

  /// Takes a token. Returns false if there is none.
  [[nodiscard]] constexpr bool take(steady_time time) noexcept {
    return rate_.take(full_at_, time.time_since_epoch().count()) == 0;
  }
  /// Returns tokens, because the peer has done something useful.
  constexpr void give(std::uint32_t count) noexcept { rate_.give(full_at_, count); }

 private:
  static constexpr std::int64_t cost_of(std::int64_t tokens_per_second) noexcept {
    constexpr std::int64_t second = 1'000'000'000;
    return std::max<std::int64_t>(second / std::max<std::int64_t>(tokens_per_second, 1), 1);
  }

  token_rate rate_;
  std::int64_t full_at_ = 0;
};

}  // namespace gyre::detail

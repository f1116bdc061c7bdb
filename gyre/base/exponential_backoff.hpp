// SPDX-License-Identifier: Apache-2.0
// exponential_backoff: delays between retries that double each time, with or without jitter.
//
//     gyre::exponential_backoff backoff{.initial = 100ms, .longest = 10s};
//     std::mt19937_64 random(seed);
//     for (std::size_t retry = 1; !try_again(); ++retry) {
//       wait(backoff.jittered_delay(retry, random));
//     }
#pragma once

#include <gyre/base/duration.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>

namespace gyre {

/// The delays before retries: min(longest, initial * 2^(n-1)) before the n-th, or with full jitter
/// a random time of at most that. Jitter spreads the retries of many clients that failed at the
/// same time.
///
/// Source: Brooker, "Exponential backoff and jitter", AWS Architecture Blog, 2015.
///
/// Lifetime: a plain value without state: the caller counts the retries.
/// Complexity: O(1), no allocation.
struct exponential_backoff {
  /// The delay before the first retry, before jitter. If zero, all delays are zero.
  duration initial = std::chrono::milliseconds{100};
  /// The upper limit of all delays, including the first.
  duration longest = std::chrono::seconds{30};

  /// Returns the delay before retry `number`, counted from 1, without jitter. Negative options
  /// count as zero.
  [[nodiscard]] constexpr std::chrono::nanoseconds delay(std::size_t number) const noexcept {
    using std::chrono::nanoseconds;
    constexpr std::size_t bits = std::numeric_limits<nanoseconds::rep>::digits;
    if (initial <= nanoseconds{0} || longest <= nanoseconds{0}) return nanoseconds{0};
    const std::size_t doublings = number > 0 ? number - 1 : 0;
    if (doublings >= bits || initial.count() > (longest.count() >> doublings)) return longest;
    return nanoseconds{initial.count() << doublings};
  }
  /// Returns the delay with full jitter: a random time between zero and delay(number). Takes one
  /// number from `random`, which generates 64 random bits.
  template <std::uniform_random_bit_generator Random>
    requires(Random::min() == 0 && Random::max() == std::numeric_limits<std::uint64_t>::max())
  [[nodiscard]] std::chrono::nanoseconds jittered_delay(std::size_t number, Random& random) const {
    const auto max_count = static_cast<std::uint64_t>(delay(number).count());
    const std::uint64_t count = static_cast<std::uint64_t>(random()) % (max_count + 1);
    return std::chrono::nanoseconds{static_cast<std::int64_t>(count)};
  }
};

}  // namespace gyre

// SPDX-License-Identifier: Apache-2.0
// keyed_rate_limiter: a token bucket for each key, such as a client's address, in bounded memory.
//
//     gyre::keyed_rate_limiter logins({.tokens = 5, .per = 1min, .burst = 10});
//     const auto decision = logins.try_acquire(address, loop.now());
//     if (!decision.is_allowed) return refuse(decision.retry_after);
//
// Source: the generic cell rate algorithm (ITU-T I.371, 1993); see rate_limiter.hpp for a limit
// that coroutines wait for.
#pragma once

#include <gyre/base/cache_line.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/detail/siphash.hpp>
#include <gyre/base/detail/token_rate.hpp>
#include <gyre/base/duration.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

namespace gyre {

/// Options of a keyed_rate_limiter.
struct keyed_rate_limiter_options {
  /// The number of tokens that each key gets in each time `per`, evenly spread. Must be positive,
  /// and at most one token for each nanosecond.
  std::uint64_t tokens = 1;
  duration per = std::chrono::seconds{1};
  /// The most tokens that a key can take at once. Must be positive, and the time in which they come
  /// at most 100 years.
  std::uint64_t burst = 1;
  /// The number of keys that are remembered, at least 1; rounded up to a power of two, at least
  /// 512. A key takes 16 bytes.
  std::size_t capacity = std::size_t{1} << 16;
};

/// Counters of a keyed_rate_limiter: of the present, and since its construction.
struct keyed_rate_limiter_metrics {
  std::uint64_t allowed = 0;
  std::uint64_t refused = 0;
  /// Keys that were forgotten before their buckets were full again, because the memory was full. If
  /// the number grows, the limit does not hold for all keys: enlarge the capacity.
  std::uint64_t forgotten = 0;
};

/// Token buckets of many keys. A key that is not remembered has a full bucket, so that keys whose
/// buckets are full need no memory. The memory is allocated by the constructor and never grows.
///
/// When there is no room for a new key, the key whose bucket is the fullest is forgotten: the one
/// that has used the least. So a flood of new keys cannot lock out honest users, whose buckets are
/// almost full and at worst become full, and it does not free the busiest keys of their debts. The
/// flood itself is limited per key only as long as its keys fit into the capacity: bound its total
/// by other means, such as http::concurrency_limit.
///
/// Keys are hashed by SipHash with a random key, so that no client can choose keys that displace
/// the key of another. Two keys share a bucket with a probability of 2^-64.
///
/// Thread-safety: every member may be called from any thread. The keys are divided among 64 locks,
/// which are held for some nanoseconds.
/// Errors: the constructor throws std::invalid_argument for options out of their ranges, and
/// std::bad_alloc.
/// Complexity: a hash of the key, a lock, and a comparison with at most 8 remembered keys; never
/// allocates after the construction.
class keyed_rate_limiter {
 public:
  /// The outcome of try_acquire().
  struct decision {
    bool is_allowed;
    /// The number of tokens that the key can take at once afterwards.
    std::uint64_t remaining;
    /// Zero if allowed; else the time after which the same call can be allowed, or duration::max()
    /// if it never can, because it asks for more than `burst`.
    duration retry_after;
  };

  explicit keyed_rate_limiter(keyed_rate_limiter_options options);
  keyed_rate_limiter& operator=(keyed_rate_limiter&&) = delete;

  /// Takes `tokens` from the bucket of `key` if it has as many at the time `now` (of loop::now() or
  /// timer_service::now()). A refused call takes nothing.
  decision try_acquire(std::span<const std::byte> key, time_point now, std::uint64_t tokens = 1);
  decision try_acquire(std::string_view key, time_point now, std::uint64_t tokens = 1) {
    return try_acquire(std::as_bytes(std::span(key)), now, tokens);
  }

  /// Returns the number of keys that are remembered at most.
  [[nodiscard]] std::size_t capacity() const noexcept;
  [[nodiscard]] keyed_rate_limiter_metrics metrics() const;

 private:
  static constexpr std::size_t ways = 8;  // the keys of a set, which displace each other
  static constexpr std::size_t part_count = 64;

  struct entry {
    std::uint64_t hash = 0;
    // The time at which the bucket is full.
    std::int64_t full_at = std::numeric_limits<std::int64_t>::min();
  };
  using set = std::array<entry, ways>;

  // The sets of buckets that share one lock.
  struct alignas(cache_line_size) part {
    mutable std::mutex mutex;  // guards the members below
    std::vector<set> sets;
    keyed_rate_limiter_metrics counts;
  };

  decision decide(entry& bucket, std::int64_t now, std::uint64_t tokens) const noexcept;
  static entry& find_or_replace(set& candidates, std::uint64_t hash, std::int64_t now,
                                std::uint64_t& forgotten_count) noexcept;

  const std::uint64_t burst_;
  const detail::token_rate rate_;
  const detail::siphash hash_;
  std::unique_ptr<part[]> parts_;
  std::size_t sets_per_part_;
};

}  // namespace gyre

// SPDX-License-Identifier: Apache-2.0
// byte_quota: bounds the bytes that other threads have posted to a loop and that still wait.
#pragma once

#include <gyre/base/atomic.hpp>

#include <cstddef>
#include <limits>
#include <memory>

namespace gyre::net::detail {

/// A quota of bytes, shared by several users. Each share also counts entry_cost, so that many small
/// shares are limited, too. A single share counts only its bytes, so that a small limit does not
/// refuse everything.
///
/// Thread-safety: any thread.
class byte_quota {
 public:
  /// The cost of a posted function, its buffer and its cell in an inbox, rounded up.
  static constexpr std::size_t entry_cost = 1024;

  struct return_of_share {
    std::size_t bytes;
    void operator()(byte_quota* quota) const noexcept {
      // relaxed: the count guards no data.
      quota->taken_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    }
  };
  /// Bytes that count until the share is destroyed; the quota must outlive the share.
  using share = std::unique_ptr<byte_quota, return_of_share>;

  explicit byte_quota(std::size_t limit) noexcept : limit_(limit) {}

  /// Takes a share of `bytes`. Returns an empty share if it would exceed the limit.
  [[nodiscard]] share take(std::size_t bytes) noexcept {
    if (bytes > limit_ || bytes > std::numeric_limits<std::size_t>::max() - entry_cost) return {};
    const std::size_t cost = bytes + entry_cost;
    // relaxed: the count guards no data.
    std::size_t count = taken_bytes_.load(std::memory_order_relaxed);
    do {
      if (count != 0 && (cost > limit_ || count > limit_ - cost)) return {};
    } while (!taken_bytes_.compare_exchange_weak(count, count + cost, std::memory_order_relaxed));
    return share(this, {cost});
  }

 private:
  const std::size_t limit_;
  gyre::detail::atomic<std::size_t> taken_bytes_{0};
};

}  // namespace gyre::net::detail

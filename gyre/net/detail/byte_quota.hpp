// SPDX-License-Identifier: Apache-2.0
// byte_quota: bounds the bytes that other threads have posted to a loop and that still wait.
#pragma once

#include <gyre/base/atomic.hpp>

#include <cstddef>
#include <limits>
#include <optional>
#include <utility>

namespace gyre::net::detail {

/// A counting limit of bytes. Each share also counts a fixed cost, so that many small or empty ones
/// are limited, too; a share that is alone counts only its bytes, so that a small limit does not
/// refuse everything.
///
/// Thread-safety: any thread.
class byte_quota {
 public:
  /// The cost of a posted function, its buffer and its cell in an inbox, rounded up.
  static constexpr std::size_t entry_cost = 1024;

  /// Bytes that count until the share is destroyed, before the quota is.
  class share {
   public:
    share(share&& other) noexcept
        : quota_(std::exchange(other.quota_, nullptr)), bytes_(other.bytes_) {}
    share& operator=(share&&) = delete;
    ~share() {
      // relaxed: a count that orders nothing.
      if (quota_ != nullptr) quota_->taken_.fetch_sub(bytes_, std::memory_order_relaxed);
    }

   private:
    friend class byte_quota;
    share(byte_quota& of, std::size_t bytes) noexcept : quota_(&of), bytes_(bytes) {}
    byte_quota* quota_;
    std::size_t bytes_;
  };

  explicit byte_quota(std::size_t limit) noexcept : limit_(limit) {}

  /// No share if that would exceed the limit.
  [[nodiscard]] std::optional<share> take(std::size_t bytes) noexcept {
    if (bytes > limit_ || bytes > std::numeric_limits<std::size_t>::max() - entry_cost) {
      return std::nullopt;
    }
    const std::size_t cost = bytes + entry_cost;
    std::size_t taken = taken_.load(std::memory_order_relaxed);  // relaxed: as above
    do {
      if (taken != 0 && (cost > limit_ || taken > limit_ - cost)) return std::nullopt;
    } while (!taken_.compare_exchange_weak(taken, taken + cost, std::memory_order_relaxed));
    return share(*this, cost);
  }

 private:
  const std::size_t limit_;
  gyre::detail::atomic<std::size_t> taken_{0};
};

}  // namespace gyre::net::detail

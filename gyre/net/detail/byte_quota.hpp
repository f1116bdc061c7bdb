// SPDX-License-Identifier: Apache-2.0
// How much other threads may have on its way to a loop that does not get to it.
#pragma once

#include <gyre/base/atomic.hpp>

#include <cstddef>
#include <optional>
#include <utility>

namespace gyre::net::detail {

/// Bytes that may be taken up to a limit, and are given back. Any thread.
class byte_quota {
 public:
  /// Taken until it is destroyed, before the quota is.
  class share {
   public:
    share(share&& other) noexcept : of_(std::exchange(other.of_, nullptr)), bytes_(other.bytes_) {}
    share& operator=(share&&) = delete;
    ~share() {
      // relaxed: a count that orders nothing.
      if (of_ != nullptr) of_->taken_.fetch_sub(bytes_, std::memory_order_relaxed);
    }

   private:
    friend class byte_quota;
    share(byte_quota& of, std::size_t bytes) noexcept : of_(&of), bytes_(bytes) {}
    byte_quota* of_;
    std::size_t bytes_;
  };

  explicit byte_quota(std::size_t limit) noexcept : limit_(limit) {}

  /// None if that would be more than the limit.
  [[nodiscard]] std::optional<share> take(std::size_t bytes) noexcept {
    std::size_t taken = taken_.load(std::memory_order_relaxed);  // relaxed: as above
    do {
      if (bytes > limit_ || taken > limit_ - bytes) return std::nullopt;
    } while (!taken_.compare_exchange_weak(taken, taken + bytes, std::memory_order_relaxed));
    return share(*this, bytes);
  }

 private:
  const std::size_t limit_;
  gyre::detail::atomic<std::size_t> taken_{0};
};

}  // namespace gyre::net::detail

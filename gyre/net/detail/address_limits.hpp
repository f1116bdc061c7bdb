// SPDX-License-Identifier: Apache-2.0
// address_limits: bounds the connections of each address, and how fast it opens them.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/token_rate.hpp>
#include <gyre/net/address.hpp>
#include <gyre/net/endpoint.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <unordered_map>

namespace gyre::net::detail {

/// Counts connections by the peer's IPv4 address, or by its IPv6 /64 network, because one customer
/// has a whole /64. Does not limit Unix peers, and does nothing if there are no limits.
///
/// Thread-safety: any thread.
class address_limits {
 public:
  static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

  /// Allows each address `connections` at a time, and `max_accepts` within `interval`, which must
  /// be positive.
  address_limits(std::size_t connections, std::size_t max_accepts,
                 std::chrono::nanoseconds interval) noexcept;

  /// Counts a connection until release() if the peer's limits allow one more. Returns false
  /// otherwise, or if there is no memory for the count.
  bool admit(const endpoint& peer, steady_time current_time) noexcept;
  void release(const endpoint& peer) noexcept;
  /// The number of addresses that have an entry.
  std::size_t size() const noexcept;

 private:
  struct entry {
    std::size_t connections = 0;
    // The token_rate's time at which the address may again open as many as it likes.
    std::int64_t full_at = 0;
  };

  bool is_limited(const endpoint& peer) const noexcept;
  static ip_address key_of(const endpoint& peer) noexcept;

  const std::size_t connections_;
  const bool counts_accepts_;
  const gyre::detail::token_rate accept_rate_;
  mutable std::mutex mutex_;  // guards the members below
  std::unordered_map<ip_address, entry> entries_;
  std::size_t sweep_threshold_ = 1024;
};

}  // namespace gyre::net::detail

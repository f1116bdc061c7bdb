// SPDX-License-Identifier: Apache-2.0
// address_limits: bounds the connections of each address, and how fast it opens them.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/net/address.hpp>
#include <gyre/net/endpoint.hpp>

#include <chrono>
#include <cstddef>
#include <limits>
#include <mutex>
#include <unordered_map>

namespace gyre::net::detail {

/// Counts connections by the address of their peers; of IPv6 by its /64 network, all of which one
/// customer has. Unix peers are not limited. Without limits it costs nothing. Any thread.
class address_limits {
 public:
  static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

  /// At a time, and within `interval`, which must be positive.
  address_limits(std::size_t connections, std::size_t accepts,
                 std::chrono::nanoseconds interval) noexcept;

  /// Whether one more is allowed, then counted until release(). False also without memory to count.
  bool admit(const endpoint& peer, steady_time present) noexcept;
  void release(const endpoint& peer) noexcept;
  /// Addresses that are remembered.
  std::size_t size() const noexcept;

 private:
  struct entry {
    std::size_t connections = 0;
    /// When all that it opened would be due, had it opened them evenly (GCRA: ITU-T I.371).
    steady_time due{};
  };

  bool is_limited(const endpoint& peer) const noexcept;
  static ip_address key_of(const endpoint& peer) noexcept;

  const std::size_t connections_;
  const bool counts_accepts_;
  const std::chrono::nanoseconds interval_;
  const std::chrono::nanoseconds accept_cost_;
  mutable std::mutex mutex_;  // of these
  std::unordered_map<ip_address, entry> entries_;
  std::size_t sweep_threshold_ = 1024;
};

}  // namespace gyre::net::detail

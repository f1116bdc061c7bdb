// SPDX-License-Identifier: Apache-2.0
// ticket_keys: the keys of a server's session tickets, rotated by time.
#pragma once

#include <gyre/base/clock.hpp>

#include <array>
#include <chrono>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace gyre::tls::detail {

/// A key that encrypts tickets, a key that authenticates them, and the random name that identifies
/// both in a ticket.
struct ticket_key {
  std::array<unsigned char, 16> name;
  std::array<unsigned char, 32> cipher;
  std::array<unsigned char, 32> mac;
  steady_time birth_time;
};

/// The keys of a server. The newest key encrypts new tickets for half of its lifetime; then a new
/// key replaces it. A key decrypts tickets for its whole lifetime, so that a ticket is valid for at
/// least half of that time, and a stolen key is useful for no longer than the lifetime.
///
/// Thread-safety: any thread.
class ticket_keys {
 public:
  explicit ticket_keys(std::chrono::nanoseconds lifetime) noexcept : lifetime_(lifetime) {}

  /// Returns the key for new tickets, which may be generated now; none if the system gives no
  /// random bytes.
  std::optional<ticket_key> newest(steady_time current_time);
  /// A key, and whether it still encrypts new tickets.
  struct found_key {
    ticket_key key;
    bool is_newest;
  };
  std::optional<found_key> find(std::span<const unsigned char> name, steady_time current_time);

 private:
  void drop_expired_keys(steady_time current_time) noexcept;

  const std::chrono::nanoseconds lifetime_;
  std::mutex mutex_;
  std::vector<ticket_key> keys_;  // the keys, the oldest first
};

}  // namespace gyre::tls::detail

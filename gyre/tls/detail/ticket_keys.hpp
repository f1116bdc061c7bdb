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

/// A key that encrypts tickets, and one that authenticates them, under a random name.
struct ticket_key {
  std::array<unsigned char, 16> name;
  std::array<unsigned char, 32> cipher;
  std::array<unsigned char, 32> mac;
  steady_time born;
};

/// The newest key makes tickets for half of the lifetime; then a new one does. A key opens tickets
/// for its whole lifetime, so that a ticket is good for half of it at least, and a stolen key for
/// no longer than that.
///
/// Thread-safety: any thread.
class ticket_keys {
 public:
  explicit ticket_keys(std::chrono::nanoseconds lifetime) noexcept : lifetime_(lifetime) {}

  /// The key of new tickets; none if the system gives no random bytes.
  std::optional<ticket_key> newest(steady_time present);
  /// The key of that name, if it is known and not too old, and whether it is still the newest.
  struct found_key {
    ticket_key key;
    bool is_newest;
  };
  std::optional<found_key> find(std::span<const unsigned char> name, steady_time present);

 private:
  void drop_old(steady_time present) noexcept;

  const std::chrono::nanoseconds lifetime_;
  std::mutex mutex_;
  std::vector<ticket_key> keys_;  // the newest is the last
};

}  // namespace gyre::tls::detail

// SPDX-License-Identifier: Apache-2.0
// server_pool: the servers that a NATS client knows, and the order in which it tries them.
#pragma once

#include <gyre/base/detail/splitmix64.hpp>
#include <gyre/engines/nats/detail/server_address.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gyre::nats::detail {

/// Thread-safety: the loop's thread.
class server_pool {
 public:
  struct entry {
    server_address address;
    bool is_discovered = false;
    /// The name that the certificate must have; empty: the host's own.
    std::string certificate_name = {};
  };

  server_pool(std::vector<server_address> servers, bool must_shuffle, std::size_t max_servers,
              std::uint64_t seed);

  /// Returns the server to try next, in turn.
  const entry& next() noexcept;
  /// The server that next() returned last; at first the first one.
  const entry& current() const noexcept { return entries_[index_]; }
  std::size_t size() const noexcept { return entries_.size(); }
  /// Stores the servers that the current one has announced, "HOST:PORT", instead of those that a
  /// server has announced before. `is_encrypted`: whether the announcement came encrypted, so that
  /// no attacker can have changed it.
  void discover(const std::vector<std::string>& servers, bool is_encrypted);

 private:
  bool knows(const net::host_port& server) const noexcept;
  void shuffle_others() noexcept;

  std::vector<entry> entries_;
  const bool must_shuffle_;
  const std::size_t max_servers_;
  gyre::detail::splitmix64 generator_;
  std::size_t index_ = 0;
  bool is_begun_ = false;
};

}  // namespace gyre::nats::detail

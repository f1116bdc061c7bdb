// SPDX-License-Identifier: Apache-2.0
// dns_cache: responses of name servers, cached for their time to live.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/net/detail/dns_message.hpp>
#include <gyre/net/resolver_options.hpp>

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gyre::net::detail {

/// Caches the responses of name servers for as long as the servers allow (RFC 1035 and 2308).
///
/// Thread-safety: none; belongs to one thread.
/// Complexity: find() and keep() take O(log entries); keep() allocates.
class dns_cache {
 public:
  /// `status`: the status that c-ares passed with the message. The message is empty if there is no
  /// such name or record.
  struct answer {
    int status;
    dns_message message;
  };

  explicit dns_cache(const dns_cache_options& options) noexcept : options_(options) {}
  dns_cache(const dns_cache&) = delete;
  dns_cache& operator=(const dns_cache&) = delete;
  ~dns_cache() { clear(); }

  /// Returns the answer for `name`, in the form of host_key(), if it is still valid; null
  /// otherwise. The pointer is valid until the next change of the cache.
  const answer* find(std::string_view name, record_type type, steady_time current_time);
  /// Caches an answer, if its TTL and the memory allow it. The least recently used entries make
  /// room.
  void keep(std::string_view name, record_type type, int status, dns_message message,
            steady_time current_time) noexcept;
  void clear() noexcept;
  /// The owner counts hits and misses with the two functions below.
  const dns_cache_metrics& metrics() const noexcept { return metrics_; }
  void count_hit() noexcept { ++metrics_.hits; }
  void count_miss() noexcept { ++metrics_.misses; }

 private:
  using key = std::pair<std::string, record_type>;
  using key_view = std::pair<std::string_view, record_type>;
  struct entry : intrusive_list_node {
    const key* name = nullptr;
    std::vector<unsigned char> bytes;
    answer content{};
    steady_time expiry{};
  };
  struct by_key {
    using is_transparent = void;
    static key_view view(const key& name_and_type) noexcept {
      return {name_and_type.first, name_and_type.second};
    }
    static key_view view(key_view key) noexcept { return key; }
    bool operator()(const auto& left, const auto& right) const noexcept {
      return view(left) < view(right);
    }
  };

  static std::size_t cost_of(std::string_view name, std::size_t message_size) noexcept;
  void drop(entry& target) noexcept;

  const dns_cache_options options_;
  std::map<key, entry, by_key> entries_;
  intrusive_list<entry> by_use_;  // ordered, the least recently used entry first
  dns_cache_metrics metrics_;
};

}  // namespace gyre::net::detail

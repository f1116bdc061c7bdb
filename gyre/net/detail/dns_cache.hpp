// SPDX-License-Identifier: Apache-2.0
// dns_cache: answers of name servers, kept for as long as they allow.
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

/// Caches answers of name servers for as long as they allow (RFC 1035 and 2308). Belongs to one
/// thread. Finding and keeping cost O(log entries); keeping allocates.
class dns_cache {
 public:
  /// `status` is what c-ares said with it. The message is empty if there is no such name or record.
  struct answer {
    int status;
    dns_message message;
  };

  explicit dns_cache(const dns_cache_options& options) noexcept : options_(options) {}
  dns_cache(const dns_cache&) = delete;
  dns_cache& operator=(const dns_cache&) = delete;
  ~dns_cache() { clear(); }

  /// The answer for `name`, as host_key() spells it, if still valid. For use until the next change.
  const answer* find(std::string_view name, record_type type, steady_time present);
  /// Keeps it, if it may and can be kept; those not used for longest make room.
  void keep(std::string_view name, record_type type, int status, dns_message message,
            steady_time present) noexcept;
  void clear() noexcept;
  /// Its hits and misses are the owner's to count.
  const dns_cache_metrics& metrics() const noexcept { return metrics_; }
  void count_hit() noexcept { ++metrics_.hits; }
  void count_miss() noexcept { ++metrics_.misses; }

 private:
  using key = std::pair<std::string, record_type>;
  using key_view = std::pair<std::string_view, record_type>;
  struct entry : intrusive_list_node {
    const key* name = nullptr;
    std::vector<unsigned char> bytes;
    answer kept{};
    steady_time expiry{};
  };
  struct by_key {
    using is_transparent = void;
    static key_view view(const key& each) noexcept { return {each.first, each.second}; }
    static key_view view(key_view each) noexcept { return each; }
    bool operator()(const auto& one, const auto& other) const noexcept {
      return view(one) < view(other);
    }
  };

  static std::size_t cost_of(std::string_view name, std::size_t message_size) noexcept;
  void drop(entry& dropped) noexcept;

  const dns_cache_options options_;
  std::map<key, entry, by_key> entries_;
  intrusive_list<entry> by_use_;  // the last one was used last
  dns_cache_metrics metrics_;
};

}  // namespace gyre::net::detail

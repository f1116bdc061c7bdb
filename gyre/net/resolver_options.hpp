// SPDX-License-Identifier: Apache-2.0
// resolver_options: the settings, results and counters of a resolver.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/metrics/writable.hpp>
#include <gyre/net/endpoint.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace gyre::net {

/// A server of a service (RFC 2782). resolve_srv() gives them in the order in which to try them:
///
///     for (const auto& each : co_await names.resolve_srv("_xmpp-client._tcp.example.org")) {
///       auto peer = co_await gyre::as_expected(gyre::net::connect(names, each.target, each.port));
///       if (!peer) continue;  // the next server
///       use(std::move(*peer));
///       break;
///     }
struct srv_record {
  std::string target;  ///< the name of its host
  std::uint16_t port = 0;
  std::uint16_t priority = 0;  ///< smaller priorities are tried first
  std::uint16_t weight = 0;    ///< its share of the load among those of one priority
};

/// The sources of addresses, in their order. The second source is tried after any failure of the
/// first.
enum class lookup_order { hosts_then_dns, dns_then_hosts, hosts_only, dns_only };

/// Which addresses of a host a lookup gives, and in what order.
enum class address_choice {
  as_sorted,   ///< all, the best first by RFC 6724; those of the hosts file in its order
  ipv4_first,  ///< as_sorted, but IPv4 before IPv6
  ipv6_first,
  ipv4_only,  ///< without a query for the others
  ipv6_only,
};

/// Limits of a resolver's cache. It keeps answers for the TTL of their records (RFC 2308 for names
/// and records that do not exist), and no longer than the two times below. Other failures are not
/// kept.
struct dns_cache_options {
  /// The approximate maximum size of the cache, in bytes. A new entry replaces the least recently
  /// used ones. Zero disables the cache.
  std::size_t bytes = std::size_t{256} << 10;
  /// The longest time for which an answer is kept.
  duration longest_positive = std::chrono::hours{1};
  /// The longest time for which the absence of a name is kept.
  duration longest_negative = std::chrono::minutes{5};
};

/// Counters of a resolver's cache: of its present content, and of lookups since the construction of
/// the resolver.
struct dns_cache_metrics {
  static constexpr bool is_read_on_owner = true;  ///< see metrics::registry::add()

  std::size_t entries = 0;
  std::size_t bytes = 0;
  std::uint64_t hits = 0;    ///< lookups without a query
  std::uint64_t misses = 0;  ///< names that servers were asked for
};
/// Adds the counts to an exposition: see metrics::registry.
void write_metrics(metrics::exposition& output, const dns_cache_metrics& counts);

/// Options of a resolver, fixed when it is constructed.
struct resolver_options {
  /// Name servers in their order: IP endpoints; the wildcard address is this machine. Default:
  /// those in resolv.conf, also with a scope ("fe80::1%eth0") or a port ("[::1]:5353").
  std::vector<endpoint> servers = {};
  /// Timeout of a query in the first round over the servers; each further round doubles it. Rounded
  /// up to milliseconds; more than a day counts as a day.
  duration timeout = std::chrono::seconds{2};
  /// The maximum number of rounds over the servers; at least 1. With one server the defaults give
  /// up after 14 s.
  int tries = 3;
  lookup_order order = lookup_order::hosts_then_dns;
  /// Both files are read again when a lookup finds that they have changed; a changed resolv.conf
  /// clears the cache. Queries under way stay with their servers.
  std::string resolv_conf = "/etc/resolv.conf";
  /// The file of names and addresses of this machine.
  std::string hosts_file = "/etc/hosts";
  address_choice addresses = address_choice::as_sorted;
  /// Search domains, which are tried before the name itself if it has fewer than `ndots` dots,
  /// otherwise after it. Without a value, those of resolv.conf.
  std::optional<std::vector<std::string>> search_domains = {};
  std::optional<int> ndots = {};
  /// The maximum number of names that servers are asked for at the same time, at least 1; further
  /// lookups wait. A cancelled lookup is no longer counted, but its queries continue until they are
  /// answered, time out, or no lookup waits for an answer. Beyond about 8 * max_concurrent names of
  /// cancelled lookups (see abandoned()), further lookups wait for these, too.
  std::size_t max_concurrent = 256;
  dns_cache_options cache = {};
};

/// Addresses of a name, the best one first, or the error.
using resolve_result = std::expected<std::vector<endpoint>, std::error_code>;
/// SRV records of a service, in the order in which to try them, or the error.
using srv_result = std::expected<std::vector<srv_record>, std::error_code>;
/// Texts of TXT records, or names of PTR records.
using text_result = std::expected<std::vector<std::string>, std::error_code>;

}  // namespace gyre::net

// SPDX-License-Identifier: Apache-2.0
// Lookups that need no server: numbers, the hosts file, reserved names, and the cache.
#include <gyre/net/detail/name_engine.hpp>

#include <gyre/net/detail/errors.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

namespace gyre::net::detail {
namespace {

bool is_localhost(std::string_view key) {
  return key == "localhost" || key.ends_with(".localhost");
}

// No query may be made for these (RFC 7686).
bool is_onion(std::string_view key) { return key == "onion" || key.ends_with(".onion"); }

// Checks that c-ares 1.18 does not make.
bool can_be_name(std::string_view host) {
  return !host.empty() && host != "." && host.size() <= 254 && !host.contains('\0') &&
         !host.contains(':');
}

}  // namespace

bool name_engine::is_requested(const ip_address& address) const noexcept {
  if (options_.addresses == address_choice::ipv4_only) return address.is_v4();
  if (options_.addresses == address_choice::ipv6_only) return address.is_v6();
  return true;
}

resolve_result name_engine::select_addresses(const std::vector<ip_address>& addresses,
                                             std::uint16_t port) const {
  const auto comes_first = [this](const ip_address& each) {
    if (options_.addresses == address_choice::ipv4_first) return each.is_v4();
    return options_.addresses != address_choice::ipv6_first || each.is_v6();
  };
  std::vector<endpoint> chosen;
  chosen.reserve(addresses.size());
  for (const bool first : {true, false}) {
    for (const ip_address& each : addresses) {
      if (is_requested(each) && comes_first(each) == first) chosen.emplace_back(each, port);
    }
  }
  if (chosen.empty()) return failure(resolve_errc::no_data);
  return chosen;
}

std::optional<std::vector<ip_address>> name_engine::from_hosts(std::string_view key) {
  const std::vector<ip_address>* found = hosts_.find(key);
  if (found == nullptr) return std::nullopt;
  std::vector<ip_address> chosen;
  std::ranges::copy_if(*found, std::back_inserter(chosen),
                       [this](const ip_address& each) { return is_requested(each); });
  if (chosen.empty()) return std::nullopt;
  return chosen;
}

std::optional<resolve_result> name_engine::resolve_locally(waiting_lookup& lookup,
                                                           std::string_view host,
                                                           const service& port) {
  lookup.port = port.port().value_or(0);
  if (lookup.kind.records == 0) {
    if (!port.port()) return failure(resolve_errc::service_not_found);
    const auto numeric = ip_address::parse(host);
    if (numeric) return select_addresses({*numeric}, lookup.port);
    if (numeric.error() == std::errc::no_such_device) return failure(numeric.error());
  }
  if (!can_be_name(host)) return failure(resolve_errc::bad_name);
  if (lookup.kind.records == 0) {
    using enum lookup_order;
    const std::string key = host_key(host);
    const bool local = is_localhost(key);
    if (local ? options_.order != dns_only
              : options_.order == hosts_then_dns || options_.order == hosts_only) {
      if (const auto found = from_hosts(key)) return select_addresses(*found, lookup.port);
    }
    if (local)
      return select_addresses({ip_address::loopback_v6(), ip_address::loopback_v4()}, lookup.port);
    if (options_.order == hosts_only || is_onion(key)) return failure(resolve_errc::host_not_found);
  }
  reload_if_changed();
  return from_cache(lookup, key_for(lookup, host));
}

// Nothing if any part of it needs a server.
std::optional<resolve_result> name_engine::from_cache(waiting_lookup& lookup,
                                                      const question_key& key) {
  if (cache_.metrics().entries == 0) return std::nullopt;
  question cached;
  cached.key = &key;
  for (const std::string& name : names_for(key)) {
    cached.queries = queries_for(cached);
    for (dns_query& each : cached.queries) {
      const auto* kept = cache_.find(plain_name(name), each.type, loop_.now());
      if (kept == nullptr) return std::nullopt;
      decode_answer(each, kept->status, kept->message);
    }
    cached.failure = graver(cached.failure, cached.query_failure());
    if (cached.has_answer()) break;
  }
  cache_.count_hit();
  set_result(lookup, cached, result_of(cached));
  return std::move(lookup.result);
}

}  // namespace gyre::net::detail

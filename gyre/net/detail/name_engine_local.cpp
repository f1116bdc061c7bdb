// SPDX-License-Identifier: Apache-2.0
// Lookups that need no server: numbers, the hosts file, reserved names, and the cache.
#include <gyre/base/clock.hpp>
#include <gyre/net/detail/name_engine.hpp>

#include <gyre/base/detail/ascii.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/host_port.hpp>

#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <iterator>
#include <new>
#include <utility>

namespace gyre::net::detail {

// --- The hosts file ---

namespace {

void parse_line(std::string_view line, hosts& into) {
  const auto address = ip_address::parse(next_word(line));
  if (!address) return;
  for (auto name = next_word(line); !name.empty(); name = next_word(line)) {
    auto& addresses = into[host_key(name)];
    if (std::ranges::find(addresses, *address) == addresses.end()) {
      addresses.push_back(*address);
    }
  }
}

}  // namespace

std::string host_key(std::string_view name) {
  if (name.ends_with('.')) name.remove_suffix(1);
  return gyre::detail::to_lower(name);
}

hosts parse_hosts(std::string_view text) {
  hosts result;
  while (!text.empty()) {
    std::string_view line = take_until(text, "\n");
    parse_line(take_until(line, "#"), result);
  }
  return result;
}

const std::vector<ip_address>* hosts_file::find(std::string_view key) {
  if (read_.update(path_)) {
    hosts_.clear();
    if (read_.exists()) {
      std::ifstream file(path_, std::ios::binary);
      hosts_ = parse_hosts(std::string(std::istreambuf_iterator<char>(file), {}));
    }
  }
  const auto found = hosts_.find(key);
  return found == hosts_.end() ? nullptr : &found->second;
}

// --- The cache ---

// The size of a map's node beside the entry, roughly.
std::size_t dns_cache::cost_of(std::string_view name, std::size_t message_size) noexcept {
  constexpr std::size_t of_the_map = 64;
  return of_the_map + sizeof(key) + sizeof(entry) + name.size() + message_size;
}

const dns_cache::answer* dns_cache::find(std::string_view name, record_type type, steady_time now) {
  const auto found = entries_.find(key_view(name, type));
  if (found != entries_.end() && now >= found->second.expiry) {
    drop(found->second);
  } else if (found != entries_.end()) {
    found->second.unlink();
    by_use_.push_back(found->second);
    return &found->second.kept;
  }
  return nullptr;
}

void dns_cache::keep(std::string_view name, record_type type, int status, dns_message message,
                     steady_time now) noexcept {
  const answer_lifetime lifetime = lifetime_of(message);
  if (lifetime.negative) message = {};
  const duration time = std::min<duration>(
      lifetime.time, lifetime.negative ? options_.longest_negative : options_.longest_positive);
  const std::size_t cost = cost_of(name, message.size());
  if (time <= duration::zero() || cost > options_.bytes) return;
  if (const auto old = entries_.find(key_view(name, type)); old != entries_.end()) {
    drop(old->second);
  }
  while (metrics_.bytes + cost > options_.bytes) drop(*by_use_.begin());
  try {
    std::vector<unsigned char> bytes(message.begin(), message.end());
    const auto [at, is_new] = entries_.try_emplace(key(name, type));
    entry& kept = at->second;
    kept.name = &at->first;
    kept.bytes = std::move(bytes);
    kept.kept = {.status = status, .message = kept.bytes};
    kept.expiry = gyre::detail::later(now, time);
    by_use_.push_back(kept);
    metrics_.bytes += cost;
    ++metrics_.entries;
  } catch (const std::bad_alloc&) {
    return;  // it will be asked for again
  }
}

void dns_cache::drop(entry& dropped) noexcept {
  metrics_.bytes -= cost_of(dropped.name->first, dropped.bytes.size());
  --metrics_.entries;
  dropped.unlink();
  entries_.erase(entries_.find(*dropped.name));
}

void dns_cache::clear() noexcept {
  while (!by_use_.empty()) drop(*by_use_.begin());
}

// --- The order of addresses ---

namespace {

constexpr std::size_t most_sorted = 64;  // an answer can have some thousands of addresses

struct policy {
  int precedence;
  int label;
};

struct policy_entry {
  ip_address::v6_bytes prefix;
  int bits;
  policy found;
};

// The RFC's table, the longest prefix first.
constexpr policy_entry policies[] = {
    {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 128, {50, 0}},
    {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96, {35, 4}},
    {{}, 96, {1, 3}},
    {{0x20, 0x01}, 32, {5, 5}},
    {{0x20, 0x02}, 16, {30, 2}},
    {{0x3f, 0xfe}, 16, {1, 12}},
    {{0xfe, 0xc0}, 10, {1, 11}},
    {{0xfc}, 7, {3, 13}},
    {{}, 0, {40, 1}},
};

ip_address::v6_bytes as_v6(const ip_address& address) {
  ip_address::v6_bytes bytes{};
  if (address.is_v4()) bytes[10] = bytes[11] = 0xff;
  std::ranges::copy(address.bytes(), bytes.end() - std::ssize(address.bytes()));
  return bytes;
}

int matching_bits(const ip_address::v6_bytes& one, const ip_address::v6_bytes& other) {
  for (std::size_t i = 0; i < one.size(); ++i) {
    const auto differing = static_cast<std::uint8_t>(one[i] ^ other[i]);
    if (differing != 0) return static_cast<int>(i) * 8 + std::countl_zero(differing);
  }
  return 128;
}

policy policy_of(const ip_address& address) {
  const auto bytes = as_v6(address);
  return std::ranges::find_if(policies,
                              [&](const policy_entry& each) {
                                return matching_bits(bytes, each.prefix) >= each.bits;
                              })
      ->found;
}

int scope_of(const ip_address& address) {
  constexpr int link_local = 2, site_local = 5, global = 14;
  if (address.is_loopback() || address.is_link_local()) return link_local;
  if (address.is_v4()) return global;
  const auto bytes = address.bytes();
  if (bytes[0] == 0xff) return bytes[1] & 0x0f;
  if (bytes[0] == 0xfe && bytes[1] >> 6 == 3) return site_local;
  return global;
}

}  // namespace

destination_rank rank_of(const ip_address& destination, const std::optional<ip_address>& source) {
  constexpr int of_the_network = 64;  // what comes behind says nothing of where it is
  const policy at = policy_of(destination);
  destination_rank rank{.unreachable = !source,
                        .other_scope = true,
                        .other_label = true,
                        .precedence = -at.precedence,
                        .scope = scope_of(destination),
                        .matching_bits = 0};
  if (!source) return rank;
  rank.other_scope = scope_of(*source) != rank.scope;
  rank.other_label = policy_of(*source).label != at.label;
  if (destination.is_v6() && source->is_v6()) {
    rank.matching_bits =
        -std::min(matching_bits(as_v6(destination), as_v6(*source)), of_the_network);
  }
  return rank;
}

std::optional<ip_address> source_for(const ip_address& destination) {
  constexpr std::uint16_t any_port = 53;
  const endpoint to(destination, any_port);
  const unique_fd socket(
      ::socket(static_cast<int>(to.family()), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  endpoint from;
  socklen_t size = endpoint::capacity();
  if (!socket || ::connect(socket.get(), to.data(), to.size()) != 0 ||
      ::getsockname(socket.get(), from.data(), &size) != 0) {
    return std::nullopt;
  }
  from.resize(size);
  if (!from.is_ip()) return std::nullopt;
  return from.address();
}

void sort_destinations(std::vector<ip_address>& addresses) {
  const std::size_t count = std::min(addresses.size(), most_sorted);
  if (count < 2) return;
  struct ranked_address {
    destination_rank rank;
    std::size_t index;
    ip_address address;
  };
  std::vector<ranked_address> ranked;
  ranked.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const ip_address& each = addresses[i];
    ranked.push_back({.rank = rank_of(each, source_for(each)), .index = i, .address = each});
  }
  std::ranges::sort(ranked, {},
                    [](const ranked_address& each) { return std::pair(each.rank, each.index); });
  for (std::size_t i = 0; i < count; ++i) addresses[i] = ranked[i].address;
}

// --- The lookups ---

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

const std::vector<ip_address>* name_engine::from_hosts(std::string_view key) {
  const std::vector<ip_address>* const found = hosts_.find(key);
  const auto requested = [this](const ip_address& each) { return is_requested(each); };
  return found != nullptr && std::ranges::any_of(*found, requested) ? found : nullptr;
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
    if (ends_in_number(host)) return failure(resolve_errc::numeric_host);
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

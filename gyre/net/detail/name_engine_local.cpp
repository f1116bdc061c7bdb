// SPDX-License-Identifier: Apache-2.0
// Lookups that need no server: numbers, the hosts file, reserved names, and the cache.
#include <gyre/net/detail/name_engine.hpp>

#include <gyre/net/detail/errors.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <new>

namespace gyre::net::detail {

// --- The hosts file ---

namespace {

constexpr std::string_view blank = " \t\r\v\f";

// Cuts off what comes before the first of `ends`, and that one.
std::string_view take_until(std::string_view& text, std::string_view ends) {
  const std::size_t end = text.find_first_of(ends);
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return taken;
}

std::string_view next_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(blank), line.size()));
  return take_until(line, blank);
}

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
  std::string key(name);
  for (char& each : key) {
    if (each >= 'A' && each <= 'Z') each = static_cast<char>(each - 'A' + 'a');
  }
  return key;
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
  const auto seconds = std::min(
      lifetime.time, lifetime.negative ? options_.longest_negative : options_.longest_positive);
  const std::size_t cost = cost_of(name, message.size());
  if (seconds <= std::chrono::seconds(0) || cost > options_.bytes) return;
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
    kept.expiry = now + seconds;
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

// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/dns_cache.hpp>

#include <gyre/base/duration.hpp>

#include <algorithm>
#include <new>

namespace gyre::net::detail {

// Returns the memory of an entry: its members, and roughly the node of the map.
std::size_t dns_cache::cost_of(std::string_view name, std::size_t message_size) noexcept {
  constexpr std::size_t map_node_size = 64;
  return map_node_size + sizeof(key) + sizeof(entry) + name.size() + message_size;
}

const dns_cache::answer* dns_cache::find(std::string_view name, record_type type,
                                         steady_time current_time) {
  const auto position = entries_.find(key_view(name, type));
  if (position != entries_.end() && current_time >= position->second.expiry) {
    drop(position->second);
  } else if (position != entries_.end()) {
    position->second.unlink();
    by_use_.push_back(position->second);
    return &position->second.content;
  }
  return nullptr;
}

void dns_cache::keep(std::string_view name, record_type type, int status, dns_message message,
                     steady_time current_time) noexcept {
  const answer_ttl ttl = ttl_of(message);
  if (ttl.negative) message = {};
  const duration time = std::min<duration>(
      ttl.time, ttl.negative ? options_.longest_negative : options_.longest_positive);
  const std::size_t cost = cost_of(name, message.size());
  if (time <= duration::zero() || cost > options_.bytes) return;
  if (const auto match = entries_.find(key_view(name, type)); match != entries_.end()) {
    drop(match->second);
  }
  while (metrics_.bytes + cost > options_.bytes) drop(*by_use_.begin());
  try {
    std::vector<unsigned char> bytes(message.begin(), message.end());
    const auto [position, is_new] = entries_.try_emplace(key(name, type));
    entry& slot = position->second;
    slot.name = &position->first;
    slot.bytes = std::move(bytes);
    slot.content = {.status = status, .message = slot.bytes};
    slot.expiry = gyre::detail::later(current_time, time);
    by_use_.push_back(slot);
    metrics_.bytes += cost;
    ++metrics_.entries;
  } catch (const std::bad_alloc&) {
    return;  // the answer is not cached: the next lookup queries the servers again
  }
}

void dns_cache::drop(entry& target) noexcept {
  metrics_.bytes -= cost_of(target.name->first, target.bytes.size());
  --metrics_.entries;
  target.unlink();
  entries_.erase(entries_.find(*target.name));
}

void dns_cache::clear() noexcept {
  while (!by_use_.empty()) drop(*by_use_.begin());
}

}  // namespace gyre::net::detail

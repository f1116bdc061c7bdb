// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/address_limits.hpp>

#include <gyre/base/duration.hpp>

#include <algorithm>
#include <cstdint>
#include <new>

namespace gyre::net::detail {
namespace {

// The largest interval, 73 years: twice this interval plus the time since boot does not overflow.
constexpr std::chrono::nanoseconds max_interval = duration::max() / 4;

// Returns the rate of `max_accepts` in each `interval`.
gyre::detail::token_rate rate_of(std::size_t max_accepts,
                                 std::chrono::nanoseconds interval) noexcept {
  const std::int64_t fill_time = std::min(interval, max_interval).count();
  const auto count = static_cast<std::int64_t>(std::min<std::size_t>(max_accepts, 1 << 30));
  return {std::max<std::int64_t>(fill_time / std::max<std::int64_t>(count, 1), 1), fill_time};
}

}  // namespace

address_limits::address_limits(std::size_t connections, std::size_t max_accepts,
                               std::chrono::nanoseconds interval) noexcept
    : connections_(connections),
      counts_accepts_(max_accepts != unlimited),
      accept_rate_(rate_of(max_accepts, interval)) {}

bool address_limits::is_limited(const endpoint& peer) const noexcept {
  return (connections_ != unlimited || counts_accepts_) && peer.is_ip();
}

ip_address address_limits::key_of(const endpoint& peer) noexcept {
  const ip_address address = peer.address().unmapped();
  if (address.is_v4()) return address;
  ip_address::v6_bytes network{};
  std::ranges::copy(address.bytes().first(network.size() / 2), network.begin());
  return ip_address(network);
}

bool address_limits::admit(const endpoint& peer, steady_time current_time) noexcept {
  if (!is_limited(peer)) return true;
  const std::int64_t now = current_time.time_since_epoch().count();
  const std::lock_guard lock(mutex_);
  try {
    if (entries_.size() >= sweep_threshold_) {
      // A sweep costs amortised constant time per added entry, because the next sweep comes when
      // the number of entries has doubled.
      std::erase_if(entries_, [&](const auto& item) {
        return item.second.connections == 0 && item.second.full_at <= now;
      });
      sweep_threshold_ = std::max<std::size_t>(2 * entries_.size(), 1024);
    }
    entry& entry_of_peer = entries_[key_of(peer)];
    if (entry_of_peer.connections >= connections_) return false;
    if (counts_accepts_ && accept_rate_.take(entry_of_peer.full_at, now) != 0) return false;
    ++entry_of_peer.connections;
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void address_limits::release(const endpoint& peer) noexcept {
  if (!is_limited(peer)) return;
  const std::lock_guard lock(mutex_);
  const auto position = entries_.find(key_of(peer));
  if (position == entries_.end() || --position->second.connections > 0) return;
  if (!counts_accepts_) entries_.erase(position);
}

std::size_t address_limits::size() const noexcept {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace gyre::net::detail

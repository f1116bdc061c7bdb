// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/detail/server_pool.hpp>

#include <algorithm>
#include <system_error>
#include <utility>

namespace gyre::nats::detail {

server_pool::server_pool(std::vector<server_address> servers, bool must_shuffle,
                         std::size_t max_servers, std::uint64_t seed)
    : must_shuffle_(must_shuffle),
      max_servers_(std::max(max_servers, servers.size())),
      generator_(seed) {
  for (server_address& address : servers) entries_.push_back({.address = std::move(address)});
  if (must_shuffle_) std::ranges::shuffle(entries_, generator_);
}

const server_pool::entry& server_pool::next() noexcept {
  if (std::exchange(is_begun_, true)) index_ = (index_ + 1) % entries_.size();
  return current();
}

bool server_pool::knows(const net::host_port& server) const noexcept {
  return std::ranges::any_of(
      entries_, [&](const entry& old_entry) { return old_entry.address.server == server; });
}

void server_pool::discover(const std::vector<std::string>& servers, bool is_encrypted) {
  const entry origin = current();
  std::vector<server_address> addresses;
  for (const std::string& text : servers) {
    try {
      addresses.push_back(server_address::parse(text));
    } catch (const std::system_error&) {
      continue;  // an address that this client cannot parse is left out
    }
  }
  // The current server comes first, and is never removed.
  std::swap(entries_.front(), entries_[index_]);
  index_ = 0;
  const auto is_gone = [&](const entry& old_entry) {
    return old_entry.is_discovered &&
           std::ranges::none_of(addresses, [&](const server_address& address) {
             return address.server == old_entry.address.server;
           });
  };
  entries_.erase(std::remove_if(entries_.begin() + 1, entries_.end(), is_gone), entries_.end());

  bool has_new = false;
  for (server_address& address : addresses) {
    if (entries_.size() >= max_servers_) break;
    if (knows(address.server)) continue;
    entry new_entry{.address = std::move(address), .is_discovered = true};
    new_entry.address.demands_tls = origin.address.demands_tls;
    new_entry.address.user = origin.address.user;
    new_entry.address.password = origin.address.password;
    new_entry.address.token = origin.address.token;
    // An attacker who changes an address on its way must not pass with a certificate of his own, so
    // a discovered address is checked against the name of the original server.
    if (!is_encrypted || !new_entry.address.server.is_name()) {
      const bool has_name = !origin.certificate_name.empty() || origin.address.server.is_name();
      if (has_name) {
        new_entry.certificate_name =
            origin.certificate_name.empty() ? origin.address.host() : origin.certificate_name;
      }
    }
    entries_.push_back(std::move(new_entry));
    has_new = true;
  }
  if (has_new && must_shuffle_) shuffle_others();
}

void server_pool::shuffle_others() noexcept {
  std::ranges::shuffle(entries_.begin() + 1, entries_.end(), generator_);
}

}  // namespace gyre::nats::detail

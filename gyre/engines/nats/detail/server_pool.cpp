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
      random_(seed) {
  for (server_address& each : servers) entries_.push_back({.address = std::move(each)});
  if (must_shuffle_) std::ranges::shuffle(entries_, random_);
}

const server_pool::entry& server_pool::next() noexcept {
  if (std::exchange(is_begun_, true)) index_ = (index_ + 1) % entries_.size();
  return current();
}

bool server_pool::knows(const net::host_port& server) const noexcept {
  return std::ranges::any_of(entries_,
                             [&](const entry& each) { return each.address.server == server; });
}

void server_pool::discover(const std::vector<std::string>& servers, bool is_encrypted) {
  const entry origin = current();
  std::vector<server_address> found;
  for (const std::string& text : servers) {
    try {
      found.push_back(server_address::parse(text));
    } catch (const std::system_error&) {
      continue;  // this program cannot use the address
    }
  }
  // The current server comes first, and is never removed.
  std::swap(entries_.front(), entries_[index_]);
  index_ = 0;
  const auto is_gone = [&](const entry& each) {
    return each.is_discovered && std::ranges::none_of(found, [&](const server_address& address) {
             return address.server == each.address.server;
           });
  };
  entries_.erase(std::remove_if(entries_.begin() + 1, entries_.end(), is_gone), entries_.end());

  bool has_new = false;
  for (server_address& each : found) {
    if (entries_.size() >= max_servers_) break;
    if (knows(each.server)) continue;
    entry added{.address = std::move(each), .is_discovered = true};
    added.address.demands_tls = origin.address.demands_tls;
    added.address.user = origin.address.user;
    added.address.password = origin.address.password;
    added.address.token = origin.address.token;
    // Somebody who changes an address on its way must not get a login by a certificate of his own.
    if (!is_encrypted || !added.address.server.is_name()) {
      const bool has_name = !origin.certificate_name.empty() || origin.address.server.is_name();
      if (has_name) {
        added.certificate_name =
            origin.certificate_name.empty() ? origin.address.host() : origin.certificate_name;
      }
    }
    entries_.push_back(std::move(added));
    has_new = true;
  }
  if (has_new && must_shuffle_) shuffle_others();
}

void server_pool::shuffle_others() noexcept {
  std::ranges::shuffle(entries_.begin() + 1, entries_.end(), random_);
}

}  // namespace gyre::nats::detail

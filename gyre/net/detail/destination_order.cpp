// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/destination_order.hpp>

#include <gyre/net/detail/system_sockets.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

namespace gyre::net::detail {
namespace {

// The rest of the addresses stays in the resolver's order: a host can have thousands.
constexpr std::size_t max_sorted = 64;

struct policy {
  int precedence;
  int label;
};

struct policy_entry {
  ip_address::v6_bytes prefix;
  int bits;
  policy value;
};

// The policy table of RFC 6724, section 2.1, the longest prefix first.
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

int matching_bits(const ip_address::v6_bytes& left, const ip_address::v6_bytes& right) {
  for (std::size_t i = 0; i < left.size(); ++i) {
    const auto difference = static_cast<std::uint8_t>(left[i] ^ right[i]);
    if (difference != 0) return static_cast<int>(i) * 8 + std::countl_zero(difference);
  }
  return 128;
}

policy policy_of(const ip_address& address) {
  const auto bytes = as_v6(address);
  return std::ranges::find_if(policies,
                              [&](const policy_entry& entry) {
                                return matching_bits(bytes, entry.prefix) >= entry.bits;
                              })
      ->value;
}

int scope_of(const ip_address& address) {
  constexpr int link_scope = 2, site_scope = 5, global_scope = 14;
  if (address.is_loopback() || address.is_link_local()) return link_scope;
  if (address.is_v4()) return global_scope;
  const auto bytes = address.bytes();
  if (bytes[0] == 0xff) return bytes[1] & 0x0f;
  if (bytes[0] == 0xfe && bytes[1] >> 6 == 3) return site_scope;
  return global_scope;
}

}  // namespace

destination_rank rank_of(const ip_address& destination, const std::optional<ip_address>& source) {
  // The bits after the first 64 do not tell how near an address is.
  constexpr int network_bits = 64;
  const policy rules = policy_of(destination);
  destination_rank rank{.unreachable = !source,
                        .other_scope = true,
                        .other_label = true,
                        .precedence = -rules.precedence,
                        .scope = scope_of(destination),
                        .matching_bits = 0};
  if (!source) return rank;
  rank.other_scope = scope_of(*source) != rank.scope;
  rank.other_label = policy_of(*source).label != rules.label;
  if (destination.is_v6() && source->is_v6()) {
    rank.matching_bits = -std::min(matching_bits(as_v6(destination), as_v6(*source)), network_bits);
  }
  return rank;
}

std::optional<ip_address> source_for(const ip_address& destination) {
  constexpr std::uint16_t any_port = 53;
  const endpoint peer(destination, any_port);
  const auto socket = system::open_socket(static_cast<int>(peer.family()), SOCK_DGRAM);
  if (!socket || !system::connect(socket->get(), peer)) return std::nullopt;
  endpoint source;
  if (!system::read_local_endpoint(socket->get(), source) || !source.is_ip()) return std::nullopt;
  return source.address();
}

void sort_destinations(std::vector<ip_address>& addresses) {
  const std::size_t count = std::min(addresses.size(), max_sorted);
  if (count < 2) return;
  struct ranked_address {
    destination_rank rank;
    std::size_t index;
    ip_address address;
  };
  std::vector<ranked_address> candidates;
  candidates.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const ip_address& address = addresses[i];
    candidates.push_back(
        {.rank = rank_of(address, source_for(address)), .index = i, .address = address});
  }
  std::ranges::sort(candidates, {}, [](const ranked_address& candidate) {
    return std::pair(candidate.rank, candidate.index);
  });
  for (std::size_t i = 0; i < count; ++i) addresses[i] = candidates[i].address;
}

}  // namespace gyre::net::detail

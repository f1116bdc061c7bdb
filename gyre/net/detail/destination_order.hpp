// SPDX-License-Identifier: Apache-2.0
// sort_destinations: destination address selection (RFC 6724, Thaler, Draves, Matsumoto and Chown,
// 2012), which decides the order in which a host's addresses are tried.
#pragma once

#include <gyre/net/address.hpp>

#include <compare>
#include <optional>
#include <vector>

namespace gyre::net::detail {

/// The rank of a destination: smaller ranks are tried first. The members are the rules of RFC 6724,
/// section 6, in their order; rules 3, 4 and 7 would need facts about the interfaces that the
/// system does not give to programs.
struct destination_rank {
  bool unreachable;   // rule 1: avoid unusable destinations
  bool other_scope;   // rule 2: prefer matching scope
  bool other_label;   // rule 5: prefer matching label
  int precedence;     // rule 6: prefer higher precedence; negated
  int scope;          // rule 8: prefer smaller scope
  int matching_bits;  // rule 9: use longest matching prefix, of IPv6; negated
  friend auto operator<=>(const destination_rank&, const destination_rank&) = default;
};

/// Returns the rank of `destination`. `source`: the address from which the machine would connect;
/// none if it could not.
destination_rank rank_of(const ip_address& destination, const std::optional<ip_address>& source);

/// Returns the address from which the machine would send to `destination`.
/// Complexity: four system calls, no packet.
std::optional<ip_address> source_for(const ip_address& destination);

/// Sorts addresses, the best first. Equally good ones keep their order, and all after the 64th keep
/// their positions.
/// Complexity: four system calls for each address; none for a single address.
void sort_destinations(std::vector<ip_address>& addresses);

}  // namespace gyre::net::detail

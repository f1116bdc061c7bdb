// SPDX-License-Identifier: Apache-2.0
// sort_destinations: which of a host's addresses to connect to first, by destination address
// selection (RFC 6724, Thaler, Draves, Matsumoto and Chown, 2012).
#pragma once

#include <gyre/net/address.hpp>

#include <compare>
#include <optional>
#include <vector>

namespace gyre::net::detail {

/// Where a destination stands among others: the smaller, the sooner. The members are the RFC's
/// rules of section 6, in their order; its rules 3, 4 and 7 would need to know more of the
/// interfaces than a program is told.
struct destination_rank {
  bool unreachable;   // 1: avoid unusable destinations
  bool other_scope;   // 2: prefer matching scope
  bool other_label;   // 5: prefer matching label
  int precedence;     // 6: prefer higher precedence; negated
  int scope;          // 8: prefer smaller scope
  int matching_bits;  // 9: use longest matching prefix, of IPv6; negated
  friend auto operator<=>(const destination_rank&, const destination_rank&) = default;
};

/// `source` is the address from which the machine would connect; none if it could not.
destination_rank rank_of(const ip_address& destination, const std::optional<ip_address>& source);

/// The address from which the machine would send to `destination`; four system calls, no packet.
std::optional<ip_address> source_for(const ip_address& destination);

/// Sorts addresses, the best first; those that are equally good keep their order, and those after
/// the 64th their places. Four system calls for each address, unless there is one.
void sort_destinations(std::vector<ip_address>& addresses);

}  // namespace gyre::net::detail

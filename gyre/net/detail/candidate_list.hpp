// SPDX-License-Identifier: Apache-2.0
// candidate_list: the addresses of a host in the order in which to try them.
#pragma once

#include <gyre/net/endpoint.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <set>
#include <vector>

namespace gyre::net::detail {

/// Candidates for a connection (RFC 8305, section 4): each version's addresses keep their order,
/// and the versions take turns. An empty one needs no memory. Not thread-safe.
class candidate_list {
 public:
  /// Adds those that no earlier call added. Throws std::bad_alloc.
  void add(const std::vector<endpoint>& candidates);
  /// Whether any were added, tried or not.
  bool has_known() const noexcept { return !known_.empty(); }
  /// Takes the next one; nothing if all have been taken.
  std::optional<endpoint> next();

 private:
  struct version {
    std::vector<endpoint> candidates;
    std::size_t taken = 0;  // of these
  };
  std::set<endpoint> known_;
  address_family first_family_ = address_family::none;
  std::array<version, 2> versions_;  // the first one's, and the other
  std::size_t turn_ = 0;             // whose next is taken, if there is one
};

}  // namespace gyre::net::detail

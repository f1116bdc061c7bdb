// SPDX-License-Identifier: Apache-2.0
// candidate_list: the addresses to try for one connection, in the order of RFC 8305.
#pragma once

#include <gyre/net/endpoint.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace gyre::net::detail {

/// Candidates for a connection (RFC 8305, section 4): the addresses of each IP version keep their
/// order, and the versions take turns. An empty list needs no memory.
///
/// Thread-safety: none.
class candidate_list {
 public:
  /// Adds the candidates that no earlier call has added. Throws std::bad_alloc.
  void add(std::span<const endpoint> candidates) {
    if (candidates.empty()) return;
    if (known_candidates_.empty()) first_family_ = candidates.front().family();
    for (const endpoint& candidate : candidates) {
      if (known_candidates_.contains(candidate)) continue;
      versions_[candidate.family() == first_family_ ? 0 : 1].candidates.push_back(candidate);
    }
    known_candidates_.insert(candidates.begin(), candidates.end());
  }
  /// Whether any candidate was added, even if all have been taken.
  bool has_known() const noexcept { return !known_candidates_.empty(); }
  bool has_next() const noexcept { return versions_[0].has_next() || versions_[1].has_next(); }
  /// Takes the next candidate; returns nothing if all have been taken.
  std::optional<endpoint> take_next() {
    if (!has_next()) return std::nullopt;
    const std::size_t index = versions_[next_family_].has_next() ? next_family_ : 1 - next_family_;
    next_family_ = 1 - index;
    version& target = versions_[index];
    return target.candidates[target.count++];
  }

 private:
  struct version {
    bool has_next() const noexcept { return count < candidates.size(); }
    std::vector<endpoint> candidates;
    std::size_t count = 0;
  };
  std::set<endpoint> known_candidates_;
  address_family first_family_ = address_family::none;
  std::array<version, 2> versions_;  // the IP version of the first candidate, then the other
  std::size_t next_family_ = 0;      // the index of the version of the next candidate
};

}  // namespace gyre::net::detail

// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/candidate_list.hpp>

namespace gyre::net::detail {

void candidate_list::add(const std::vector<endpoint>& candidates) {
  if (candidates.empty()) return;
  if (known_.empty()) first_family_ = candidates.front().family();
  for (const endpoint& each : candidates) {
    if (known_.contains(each)) continue;
    versions_[each.family() == first_family_ ? 0 : 1].candidates.push_back(each);
  }
  known_.insert(candidates.begin(), candidates.end());
}

std::optional<endpoint> candidate_list::next() {
  for (const std::size_t which : {turn_, 1 - turn_}) {
    version& from = versions_[which];
    if (from.taken == from.candidates.size()) continue;
    turn_ = 1 - which;
    return from.candidates[from.taken++];
  }
  return std::nullopt;
}

}  // namespace gyre::net::detail

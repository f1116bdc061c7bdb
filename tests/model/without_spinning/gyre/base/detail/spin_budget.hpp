// SPDX-License-Identifier: Apache-2.0
//
// Stands in for the loop's real spin budget in models: one look before it sleeps. To spin longer
// only hides the schedules in which the loop falls asleep just when a task arrives.
#pragma once

namespace gyre::detail {

class spin_budget {
 public:
  int looks() const noexcept { return 1; }
  void paid(auto...) noexcept {}
  void wasted(auto...) noexcept {}
};

}  // namespace gyre::detail

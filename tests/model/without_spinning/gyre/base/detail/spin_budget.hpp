// SPDX-License-Identifier: Apache-2.0
//
// Replaces the loop's spin budget in models: one poll before the loop sleeps. Longer spinning would
// only hide the schedules in which the loop falls asleep just when a task arrives.
#pragma once

namespace gyre::detail {

class spin_budget {
 public:
  int looks() const noexcept { return 1; }
  void record_success(auto...) noexcept {}
  void record_failure(auto...) noexcept {}
};

}  // namespace gyre::detail

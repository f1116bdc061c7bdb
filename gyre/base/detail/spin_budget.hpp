// SPDX-License-Identifier: Apache-2.0
// spin_budget: how often a loop or worker looks for new tasks before it sleeps.
#pragma once

#include <algorithm>

namespace gyre::detail {

/// Adapts to success: a loop that gets tasks in quick succession saves itself and its producers the
/// system calls and the wake-up of a core; one whose looks find nothing sleeps at once, and tries
/// the whole budget once now and then, since two loops that wake each other cannot find out
/// otherwise that both could stay awake. The whole budget lasts about as long as a wake-up, so that
/// the cost is never much more than twice the best choice's (Karlin et al., 1991).
class spin_budget {
 public:
  /// The number of looks to take now.
  int looks() const noexcept { return looks_; }
  /// Notes that a task was found at the look number `look`.
  void record_success(int look) noexcept {
    looks_ = std::clamp(2 * look + min_looks, looks_, max_looks);
    failures_ = 0;
  }
  /// Notes that all looks have found no task.
  void record_failure() noexcept {
    if (++failures_ % retry == 0) {
      looks_ = max_looks;
    } else {
      looks_ = failures_ > retry ? min_looks : std::max(min_looks, looks_ / 2);
    }
  }

 private:
  static constexpr int min_looks = 8;
  static constexpr int max_looks = 2048;
  static constexpr unsigned retry = 128;

  int looks_ = max_looks;
  unsigned failures_ = 0;
};

}  // namespace gyre::detail

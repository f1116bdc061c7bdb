// SPDX-License-Identifier: Apache-2.0
// spin_budget: how often a loop or worker looks for new tasks before it sleeps.
#pragma once

#include <algorithm>

namespace gyre::detail {

/// Adapts the number of polls to their success. A loop that gets tasks in quick succession avoids
/// system calls, its own and its producers', and the wake-up of a core. A loop whose polls find
/// nothing sleeps almost at once, but tries the whole budget once in 128 failures, because two
/// loops that wake each other could not otherwise find out that both could stay awake. The whole
/// budget takes about as long as a wake-up, so that the cost is never much more than twice that of
/// the best choice (Karlin et al., 1991).
class spin_budget {
 public:
  /// Returns how many times to poll for tasks before sleeping.
  int looks() const noexcept { return looks_; }
  /// Records that poll number `look` has found a task.
  void record_success(int look) noexcept {
    looks_ = std::clamp(2 * look + min_looks, looks_, max_looks);
    failures_ = 0;
  }
  /// Records that no poll has found a task.
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

// SPDX-License-Identifier: Apache-2.0
// spin_budget: how often a loop or worker looks for new tasks before it sleeps.
#pragma once

#include <algorithm>

namespace gyre::detail {

/// Adapts to success: a loop that gets tasks in quick succession saves itself and its producers the
/// system calls and the wake-up of a core; one whose looks are wasted sleeps at once, and tries the
/// whole budget once now and then, since two loops that wake each other cannot find out otherwise
/// that both could stay awake. The whole budget lasts about as long as a wake-up, so that the cost
/// is never much more than twice the best choice's (Karlin et al., 1991).
class spin_budget {
 public:
  /// The number of looks to take now.
  int looks() const noexcept { return looks_; }
  /// A task was found at the `used`-th look.
  void paid(int used) noexcept {
    looks_ = std::clamp(2 * used + least, looks_, most);
    wasted_ = 0;
  }
  /// None was found.
  void wasted() noexcept {
    if (++wasted_ % retry == 0) {
      looks_ = most;
    } else {
      looks_ = wasted_ > retry ? least : std::max(least, looks_ / 2);
    }
  }

 private:
  static constexpr int least = 8;
  static constexpr int most = 2048;
  static constexpr unsigned retry = 128;

  int looks_ = most;
  unsigned wasted_ = 0;
};

}  // namespace gyre::detail

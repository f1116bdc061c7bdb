// SPDX-License-Identifier: Apache-2.0
// How long a loop looks for new tasks before it goes to sleep.
#pragma once

#include <algorithm>

namespace gyre::detail {

/// Grows while looking pays, shrinks while it does not: a loop that gets tasks in quick succession
/// saves itself and its producers the system calls, an idle one goes to sleep at once. After the
/// adaptive spinning of mutexes (Karlin et al., 1991: never much worse than the best fixed choice).
class spin_budget {
 public:
  /// How many looks to take now.
  int looks() const noexcept { return looks_; }
  /// A task was found while looking.
  void paid() noexcept { looks_ = std::min(most, looks_ * 2); }
  /// None was.
  void wasted() noexcept { looks_ = std::max(least, looks_ / 2); }

 private:
  static constexpr int least = 8;
  static constexpr int most = 512;
  int looks_ = most;
};

}  // namespace gyre::detail

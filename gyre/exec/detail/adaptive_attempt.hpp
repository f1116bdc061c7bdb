// SPDX-License-Identifier: Apache-2.0
// adaptive_attempt: attempts an optimisation while it pays, and backs off exponentially while it
// does not.
#pragma once

#include <algorithm>

namespace gyre::detail {

/// A counter of credit: a success adds `gain`, a failure takes 1 away. Without credit, attempts are
/// made only after pauses of 8, 16 … 512 opportunities, so that an optimisation that does not pay
/// costs next to nothing, and one that begins to pay is noticed.
class adaptive_attempt {
 public:
  /// This many failures in a row end the attempts.
  static constexpr int max_credit = 8;
  /// A `gain` of 1 asks for as many successes as failures, one of `max_credit` for one success in
  /// `max_credit` attempts.
  constexpr adaptive_attempt(int credit, int gain) noexcept : credit_(credit), gain_(gain) {}
  /// Whether to make an attempt at this opportunity.
  bool is_due() noexcept {
    if (credit_ > 0) return true;
    if (++skipped_ < pause_) return false;
    skipped_ = 0;
    return true;
  }
  void succeed() noexcept {
    credit_ = std::min(credit_ + gain_, max_credit);
    pause_ = min_pause;
  }
  void fail() noexcept {
    if (credit_ > 0) {
      --credit_;
    } else {
      pause_ = std::min(2 * pause_, max_pause);
    }
  }

 private:
  static constexpr int min_pause = 8;
  static constexpr int max_pause = 512;

  int credit_;
  int gain_;
  int pause_ = min_pause;
  int skipped_ = 0;
};

}  // namespace gyre::detail

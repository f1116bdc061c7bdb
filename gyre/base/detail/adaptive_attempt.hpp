// SPDX-License-Identifier: Apache-2.0
// adaptive_attempt: attempts an optimisation while it pays, and backs off exponentially while it
// does not.
#pragma once

#include <algorithm>

namespace gyre::detail {

/// Decides by a score whether to attempt the optimisation: a success adds `gain` to the score, a
/// failure subtracts 1. At a score of 0, an attempt is made only every 8, 16 … 512 opportunities,
/// so that an optimisation that does not pay costs next to nothing, and one that begins to pay is
/// noticed.
class adaptive_attempt {
 public:
  /// The highest score, which as many failures in a row reduce to 0.
  static constexpr int max_score = 8;
  /// Starts with `score`. A `gain` of 1 requires as many successes as failures to keep
  /// the score, a `gain` of `max_score` one success in `max_score` attempts.
  constexpr adaptive_attempt(int score, int gain) noexcept : score_(score), gain_(gain) {}
  /// Counts an opportunity. Returns whether the caller must make an attempt, and report its result
  /// by succeed() or fail().
  bool claim_attempt() noexcept {
    if (score_ > 0) return true;
    if (++skip_count_ < backoff_) return false;
    skip_count_ = 0;
    return true;
  }
  void succeed() noexcept {
    score_ = std::min(score_ + gain_, max_score);
    backoff_ = min_backoff;
  }
  void fail() noexcept {
    if (score_ > 0) {
      --score_;
    } else {
      backoff_ = std::min(2 * backoff_, max_backoff);
    }
  }

 private:
  static constexpr int min_backoff = 8;
  static constexpr int max_backoff = 512;

  int score_;  // the score, at most max_score
  int gain_;
  int backoff_ = min_backoff;  // the opportunities per attempt at a score of 0
  int skip_count_ = 0;         // the opportunities since the last attempt
};

}  // namespace gyre::detail

// SPDX-License-Identifier: Apache-2.0
// Whether to stake a little work on the chance that it saves more.
#pragma once

#include <algorithm>

namespace gyre::detail {

/// Follows what an attempt has brought: credit grows with each that paid and shrinks with each that
/// did not. Without credit one is made only now and then, after a pause that doubles while they
/// fail, so that what no longer pays costs next to nothing, and what begins to pay is noticed.
class wager {
 public:
  /// The most credit there is: so many failures in a row end the attempts.
  static constexpr int most = 8;

  /// `gain` is the credit that one success brings: 1 asks for as many successes as failures, `most`
  /// for one success in `most` attempts.
  constexpr wager(int credit, int gain) noexcept : credit_(credit), gain_(gain) {}

  /// Whether to try this time.
  bool worth_it() noexcept {
    if (credit_ > 0) return true;
    if (++skipped_ < pause_) return false;
    skipped_ = 0;
    return true;
  }
  void paid() noexcept {
    credit_ = std::min(credit_ + gain_, most);
    pause_ = shortest;
  }
  void wasted() noexcept {
    if (credit_ > 0) {
      --credit_;
    } else {
      pause_ = std::min(2 * pause_, longest);
    }
  }

 private:
  static constexpr int shortest = 8;
  static constexpr int longest = 512;

  int credit_;
  int gain_;
  int pause_ = shortest;
  int skipped_ = 0;
};

}  // namespace gyre::detail

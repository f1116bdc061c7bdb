// SPDX-License-Identifier: Apache-2.0
// spin_budget: how often a loop or worker looks for new tasks before it sleeps.
#pragma once

#include <algorithm>
#include <utility>

namespace gyre::detail {

/// Adapts the number of polls to their success. A loop that gets tasks in quick succession avoids
/// system calls, its own and its producers', and the wake-up of a core. A loop whose polls find
/// nothing sleeps almost at once, but retries the whole budget after 8, 16 … 128 failures, because
/// two loops that wake each other could not otherwise find out that both could stay awake. A retry
/// that pays makes the next one come after 8 failures again, so that two such loops soon stay awake
/// again when another program has taken the processor of one of them. The whole budget takes about
/// as long as a wake-up, so that the cost is never much more than twice that of the best choice
/// (Karlin et al., 1991).
class spin_budget {
 public:
  /// Returns how many times to poll for tasks before sleeping.
  int looks() const noexcept { return looks_; }
  /// Records that poll number `look` has found a task.
  void record_success(int look) noexcept {
    looks_ = std::clamp(2 * look + min_looks, looks_, max_looks);
    if (is_retry_ && look > min_looks) backoff_ = min_backoff;
    is_retry_ = false;
    failures_ = 0;
  }
  /// Records that no poll has found a task.
  void record_failure() noexcept {
    const bool was_retry = std::exchange(is_retry_, ++failures_ >= backoff_);
    if (was_retry) backoff_ = std::min(2 * backoff_, max_backoff);
    if (is_retry_) {
      looks_ = max_looks;
      failures_ = 0;
    } else {
      looks_ = was_retry ? min_looks : std::max(min_looks, looks_ / 2);
    }
  }

 private:
  static constexpr int min_looks = 8;
  static constexpr int max_looks = 2048;
  static constexpr int min_backoff = 8;
  static constexpr int max_backoff = 128;

  int looks_ = max_looks;
  int failures_ = 0;           // since the last success or retry
  int backoff_ = min_backoff;  // failures until the next retry
  bool is_retry_ = false;      // whether the whole budget is being retried
};

}  // namespace gyre::detail

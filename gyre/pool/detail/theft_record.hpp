// SPDX-License-Identifier: Apache-2.0
// theft_record: decides whether the thefts of a worker are worthwhile, and how long it rests if
// not.
#pragma once

#include <gyre/base/clock.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace gyre::detail {

/// A theft takes some microseconds, in which it interrupts its victim; so it is a loss if the
/// stolen tasks take less time. After several losses in a row a thief rests before each theft, each
/// time longer than before, until a theft is a gain. So victims lose only a few percent of their
/// time, however small the tasks are.
///
/// Thread-safety: belongs to its worker.
class theft_record {
 public:
  /// Whether the thief, which has no work, must rest before its next theft.
  bool must_rest() const noexcept { return losses_ >= max_losses && !has_rested_; }
  /// Begins a rest before the next theft, and returns its length.
  [[nodiscard]] std::chrono::nanoseconds begin_rest() noexcept {
    has_rested_ = true;
    return std::exchange(next_rest_, std::min<std::chrono::nanoseconds>(2 * next_rest_, max_rest));
  }

  /// Whether the thief has tasks of the last theft, or has just run them.
  bool has_stolen() const noexcept { return has_stolen_; }
  /// Records that the tasks of the last theft have been run at `time`, so that idle time after them
  /// does not count as a gain.
  void finish_tasks(steady_time time) noexcept {
    if (has_stolen_) count_result(time - last_change_ > min_gain * cost_);
    has_stolen_ = false;
  }
  /// Records that a theft begins at `time`. The tasks of the previous theft have been run.
  void start(steady_time time) noexcept {
    finish_tasks(time);
    last_change_ = time;
    has_rested_ = false;
  }
  /// Records that the theft has ended at `time`, with or without a stolen item.
  void end(steady_time time, bool success) noexcept {
    cost_ = std::max<std::chrono::nanoseconds>(time - last_change_, min_cost);
    last_change_ = time;
    has_stolen_ = success;
    if (!success) count_result(false);
  }

 private:
  static constexpr unsigned max_losses = 8;
  // A theft is a gain if its tasks take more than this many times as long, because the later join
  // costs time, too.
  static constexpr int min_gain = 4;
  // However short a theft is, its victim must fetch cache lines back when it waits for the stolen
  // task.
  static constexpr std::chrono::microseconds min_cost{1};
  static constexpr std::chrono::microseconds min_rest{50};
  static constexpr std::chrono::microseconds max_rest{1000};

  void count_result(bool is_gain) noexcept {
    losses_ = is_gain ? 0 : std::min(losses_ + 1, max_losses);
    if (is_gain) next_rest_ = min_rest;
  }

  steady_time last_change_{};        // the time at which the last theft began or ended
  std::chrono::nanoseconds cost_{};  // the duration of the last theft
  std::chrono::nanoseconds next_rest_ = min_rest;
  unsigned losses_ = 0;      // the number of losses in a row
  bool has_stolen_ = false;  // whether tasks of the last theft have not finished yet
  bool has_rested_ = false;  // whether it has rested before the next theft
};

}  // namespace gyre::detail

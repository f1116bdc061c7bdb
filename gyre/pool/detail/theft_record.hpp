// SPDX-License-Identifier: Apache-2.0
// theft_record: whether a worker's thefts pay.
#pragma once

#include <gyre/base/clock.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace gyre::detail {

/// A theft takes some microseconds, and interrupts the robbed worker for them; so it is a loss if
/// what is stolen takes less time. A thief with several losses in a row rests before each theft,
/// each longer than the last, until one has paid: so the robbed lose a few percent of their time,
/// however small the tasks are.
///
/// Thread-safety: belongs to its worker.
class theft_record {
 public:
  /// Whether the thief, which has no work, must rest before a theft.
  bool must_rest() const noexcept { return losses_ >= most_losses && !rested_; }
  /// The time to rest, before the next theft.
  [[nodiscard]] std::chrono::nanoseconds rest() noexcept {
    rested_ = true;
    return std::exchange(rest_, std::min<std::chrono::nanoseconds>(2 * rest_, longest_rest));
  }

  /// Whether the thief has tasks of the last theft, or has just run them.
  bool has_stolen() const noexcept { return has_loot_; }
  /// The thief has run the tasks of the last theft at `time`. If it then finds no work for a while,
  /// that while is no gain.
  void finish_tasks(steady_time time) noexcept {
    if (has_loot_) add(time - since_ > least_gain * cost_);
    has_loot_ = false;
  }
  /// A theft begins at `now`; the tasks of the theft before it have been run.
  void start(steady_time now) noexcept {
    finish_tasks(now);
    since_ = now;
    rested_ = false;
  }
  /// The theft has ended at `now`.
  void end(steady_time now, bool success) noexcept {
    cost_ = std::max<std::chrono::nanoseconds>(now - since_, min_cost);
    since_ = now;
    has_loot_ = success;
    if (!success) add(false);
  }

 private:
  static constexpr unsigned most_losses = 8;
  static constexpr int least_gain = 4;  // times the theft: what it takes to join again counts, too
  // However short a theft is, its victim fetches cache lines back when it waits for the stolen task.
  static constexpr std::chrono::microseconds min_cost{1};
  static constexpr std::chrono::microseconds shortest_rest{50};
  static constexpr std::chrono::microseconds longest_rest{1000};

  void add(bool is_gain) noexcept {
    losses_ = is_gain ? 0 : std::min(losses_ + 1, most_losses);
    if (is_gain) rest_ = shortest_rest;
  }

  steady_time since_{};
  std::chrono::nanoseconds cost_{};  // of the last theft
  std::chrono::nanoseconds rest_ = shortest_rest;
  unsigned losses_ = 0;
  bool has_loot_ = false;
  bool rested_ = false;
};

}  // namespace gyre::detail

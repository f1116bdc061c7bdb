// SPDX-License-Identifier: Apache-2.0
// io_slice: the time slice of a loop's I/O in one turn.
#pragma once

#include <gyre/base/clock.hpp>

#include <chrono>

namespace gyre::detail {

/// Measures the time that one turn spends on I/O. Completions that remain at the end of the slice
/// are served in the next turns, in the same order. The poller reads its clock after the first
/// completion and then once in several completions, while these are short; a turn with a single
/// completion does not read the clock.
///
/// Thread-safety: belongs to the loop's thread.
class io_slice {
 public:
  explicit io_slice(std::chrono::nanoseconds length) noexcept : length_(length) {}
  /// Begins the slice of a turn. `current_time` is the time, if the loop knows it.
  void begin(steady_time current_time = steady_time::min()) noexcept {
    begin_ = last_check_ = current_time;
    stride_ = completions_to_check_ = 1;
    is_over_ = false;
  }
  /// Counts a completion. Returns whether the poller must now call check_time() instead of
  /// is_over().
  bool count_completion() noexcept { return --completions_to_check_ <= 0; }
  /// Updates the slice with the time `current_time`. Returns whether the remaining completions must
  /// wait.
  bool check_time(steady_time current_time) noexcept;
  /// Returns whether the last check_time() has found that the remaining completions must wait.
  bool is_over() const noexcept { return is_over_; }
  /// Ends the slice, after the turn's I/O.
  void end() noexcept { last_check_ = steady_time::min(); }
  /// Returns the time at the last check_time() in this turn; min() if there was none.
  steady_time last_check() const noexcept { return last_check_; }

 private:
  static constexpr int max_stride = 16;

  const std::chrono::nanoseconds length_;
  steady_time begin_{};  // the start of the slice; min() until the first check_time()
  steady_time last_check_ = steady_time::min();
  int stride_ = 1;                // the number of completions between two calls of check_time()
  int completions_to_check_ = 1;  // the number of completions until the next check_time()
  bool is_over_ = false;
};

}  // namespace gyre::detail

// SPDX-License-Identifier: Apache-2.0
// io_slice: the time slice of a loop's I/O in one turn.
#pragma once

#include <gyre/base/clock.hpp>

#include <chrono>

namespace gyre {
class poller;
}  // namespace gyre

namespace gyre::detail {

/// Measures the time that one turn spends on I/O. Completions that are left when it is over are
/// served in the next turns, in the same order. Reads the clock after the first completion and then
/// once in several, as long as these are short; a turn with a single completion does not read it.
/// The loop's thread.
class io_slice {
 public:
  io_slice(const poller& clock, std::chrono::nanoseconds length) noexcept
      : clock_(clock), length_(length) {}
  /// `present`: the time, if it is known.
  void begin(steady_time present = steady_time::min()) noexcept {
    began_ = last_look_ = present;
    stride_ = left_ = 1;
    over_ = false;
  }
  /// Whether the remaining completions must wait; asked after each.
  bool is_over() noexcept {
    if (--left_ > 0) [[likely]]
      return over_;
    return look();
  }
  /// The turn's I/O is over.
  void end() noexcept { last_look_ = steady_time::min(); }
  /// The time at the last look in this turn; min() when there was none.
  steady_time last_look() const noexcept { return last_look_; }
  /// Whether completions may remain from this turn.
  bool was_cut() const noexcept { return over_; }

 private:
  static constexpr int longest_stride = 16;

  bool look() noexcept;

  const poller& clock_;
  const std::chrono::nanoseconds length_;
  steady_time began_{};  // min(): at the first look
  steady_time last_look_ = steady_time::min();
  int stride_ = 1;  // completions between two looks
  int left_ = 1;
  bool over_ = false;
};

}  // namespace gyre::detail

// SPDX-License-Identifier: Apache-2.0
// How long a poller serves descriptors in one turn of its loop, before timers and tasks get theirs.
#pragma once

#include <gyre/base/clock.hpp>

#include <chrono>

namespace gyre {
class poller;
}  // namespace gyre

namespace gyre::detail {

/// The time that one turn's I/O may take. What is left when it is over is served in the next turns, in
/// the same order. Reads the clock after the first completion and then once in several, as long as these
/// are short; a turn with a single one reads none. The loop's thread.
class io_slice {
 public:
  io_slice(const poller& clock, std::chrono::nanoseconds length) noexcept
      : clock_(clock), length_(length) {}

  /// With the time, if it is known.
  void begin(steady_time present = steady_time::min()) noexcept {
    began_ = last_look_ = present;
    stride_ = left_ = 1;
    over_ = false;
  }
  /// To be asked between two completions: whether the rest has to wait.
  bool is_over() noexcept {
    if (--left_ > 0) [[likely]]
      return over_;
    return look();
  }
  /// Whether there may be such a rest.
  bool was_cut() const noexcept { return over_; }

 private:
  static constexpr int longest_stride = 16;

  bool look() noexcept;

  const poller& clock_;
  const std::chrono::nanoseconds length_;
  steady_time began_{};  // min(): at the first look
  steady_time last_look_{};
  int stride_ = 1;  // completions between two looks
  int left_ = 1;
  bool over_ = false;
};

}  // namespace gyre::detail

// SPDX-License-Identifier: Apache-2.0
// item_record: records the items of one worker that take long.
#pragma once

#include <gyre/base/detail/ticks.hpp>
#include <gyre/trace/detail/recorder.hpp>

namespace gyre::detail {

/// Decides for each window of 64 items, by the window before, whether the items are measured:
/// measuring an item of less than some microseconds would cost more than a hundredth of it.
///
/// Thread-safety: belongs to the worker's thread.
/// Complexity: a subtraction and two branches for an item that is not measured.
class item_record {
 public:
  /// Called on the worker's thread before its first item.
  void begin() noexcept { begin_window(true); }
  /// Whether the next item is measured.
  [[nodiscard]] bool measures() const noexcept { return recorder_ != nullptr; }
  /// Returns the recorder of the worker's thread. Called while measures().
  [[nodiscard]] trace::detail::recorder* recorder() const noexcept { return recorder_; }
  /// Called after each item. `length`: of a measured item, in ticks.
  void end_item(tick_count length) noexcept {
    measured_ticks_ += length;
    if (--remaining_items_ == 0) [[unlikely]]
      end_window();
  }

 private:
  static constexpr unsigned window = 64;

  void begin_window(bool measures) noexcept {
    recorder_ = measures ? trace::detail::find_recorder() : nullptr;
    measured_ticks_ = 0;
    remaining_items_ = window;
    begin_ = trace::detail::begin_now();
  }
  // The time of a window that was not measured includes the worker's sleeps. Then the items of the
  // next window are measured in vain, at a cost that a worker which sleeps does not notice.
  [[gnu::noinline]] void end_window() noexcept {
    const tick_count length = measures() ? measured_ticks_ : trace::detail::begin_now() - begin_;
    begin_window(length >= window * trace::detail::min_function_length());
  }

  trace::detail::recorder* recorder_ = nullptr;
  tick_count measured_ticks_ = 0;
  tick_count begin_ = 0;
  unsigned remaining_items_ = window;
};

}  // namespace gyre::detail

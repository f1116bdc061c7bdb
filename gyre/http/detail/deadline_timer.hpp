// SPDX-License-Identifier: Apache-2.0
// deadline_timer: a timer for a deadline that mostly moves to a later time.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/exec/event_loop.hpp>

namespace gyre::http::detail {

/// A timer that expires before the deadline stays, and has_expired() starts it again, so that most
/// requests start no timer.
///
/// Thread-safety: the loop's thread. `loop` is the same in all calls.
class deadline_timer : public timer_operation {
 public:
  using timer_operation::timer_operation;

  /// max() means never.
  void set_deadline(event_loop& loop, steady_time deadline) noexcept {
    deadline_ = deadline;
    if (!linked() || deadline < timer_operation::deadline()) loop.start_timer(*this, deadline);
  }
  /// Sets the deadline if it is earlier than the present one.
  void bring_forward(event_loop& loop, steady_time deadline) noexcept {
    if (deadline < deadline_) set_deadline(loop, deadline);
  }
  void clear_deadline() noexcept { deadline_ = steady_time::max(); }
  /// Called when the timer calls. Returns whether the deadline has come; else starts the timer
  /// again if there is one.
  bool has_expired(event_loop& loop) noexcept {
    if (deadline_ == steady_time::max()) return false;
    if (loop.now() >= deadline_) return true;
    loop.start_timer(*this, deadline_);
    return false;
  }
  void cancel(event_loop& loop) noexcept {
    if (linked()) loop.cancel_timer(*this);
  }

 private:
  steady_time deadline_ = steady_time::max();
};

}  // namespace gyre::http::detail

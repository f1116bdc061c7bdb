// SPDX-License-Identifier: Apache-2.0
// standing_deadline: a timerfd(2) that ends waits for events at a deadline which many of them
// share, such as that of a server's idle timeout.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/unique_fd.hpp>

#include <sys/timerfd.h>

#include <ctime>

namespace gyre::io::detail {

/// A timerfd for a deadline that several waits in a row share. For a wait with a timeout the kernel
/// starts and cancels a timer, and the loop reads the clock: together a fifth of the processor time
/// of a sleep that an event ends. A shared deadline is set once, and later waits have no timeout.
///
/// The caller watches the descriptor, once it exists, edge-triggered, and never reads it. After
/// set() the descriptor ends a wait at deadline(), even if no wait has that deadline any more; the
/// caller then calls note_passed().
///
/// Thread-safety: the loop's thread.
class standing_deadline {
 public:
  /// The time at which the descriptor ends a wait; max(): never.
  steady_time deadline() const noexcept { return deadline_; }
  void note_passed() noexcept { deadline_ = steady_time::max(); }
  /// Counts a wait until `deadline`. Returns whether enough waits in a row have had it to call
  /// set().
  bool count_wait(steady_time deadline) noexcept {
    if (deadline != last_deadline_) {
      last_deadline_ = deadline;
      waits_ = 0;
    }
    return ++waits_ == waits_to_set;
  }
  /// Returns the descriptor, or -1 before make().
  int fd() const noexcept { return timer_.get(); }
  /// Makes the descriptor. Returns whether that was possible.
  bool make() noexcept {
    timer_ = unique_fd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    return static_cast<bool>(timer_);
  }
  /// Sets the descriptor; `deadline` is in the future. Returns whether that was possible.
  bool set(steady_time deadline) noexcept {
    const itimerspec time{.it_interval = {},
                          .it_value = gyre::detail::to_timespec(deadline.time_since_epoch())};
    if (::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &time, nullptr) != 0) return false;
    deadline_ = deadline;
    return true;
  }
  /// Closes the descriptor.
  void reset() noexcept {
    timer_.reset();
    note_passed();
  }

 private:
  static constexpr unsigned waits_to_set = 4;

  unique_fd timer_;
  steady_time deadline_ = steady_time::max();
  steady_time last_deadline_ = steady_time::max();
  unsigned waits_ = 0;  // how many waits in a row had last_deadline_
};

}  // namespace gyre::io::detail

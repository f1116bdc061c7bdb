// SPDX-License-Identifier: Apache-2.0
// standing_deadline: a timerfd(2) that ends waits for events at a deadline which many of them
// share, such as that of a server's idle timeout.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/unique_fd.hpp>

#include <sys/timerfd.h>

#include <ctime>

namespace gyre::io::detail {

/// A wait with a timeout costs the kernel a timer, which it starts and cancels, and the loop a look
/// at the clock: together a fifth of the processor time of a sleep that an event ends. So a
/// deadline that several waits in a row have is set once, and those after them have no timeout.
///
/// The descriptor, once there is one, is watched edge-triggered by the caller and never read. From
/// set() on it ends a wait at deadline(), also if no wait has that deadline any more; the caller
/// then calls passed().
///
/// Thread-safety: the loop's thread.
class standing_deadline {
 public:
  /// The time at which the descriptor ends a wait; max(): never.
  steady_time deadline() const noexcept { return deadline_; }
  void passed() noexcept { deadline_ = steady_time::max(); }
  /// Counts a wait until `deadline`, and tells whether it is to be set now.
  bool stands(steady_time deadline) noexcept {
    if (deadline != last_) {
      last_ = deadline;
      waits_ = 0;
    }
    return ++waits_ == waits_to_stand;
  }
  /// -1 before make().
  int fd() const noexcept { return timer_.get(); }
  /// Returns whether there is a descriptor now.
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
    passed();
  }

 private:
  static constexpr unsigned waits_to_stand = 4;

  unique_fd timer_;
  steady_time deadline_ = steady_time::max();
  steady_time last_ = steady_time::max();
  unsigned waits_ = 0;  // in a row, until last_
};

}  // namespace gyre::io::detail
